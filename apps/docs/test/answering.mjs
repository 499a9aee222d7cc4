// In JavaScript, because Express has no types here.
import express from "express";

/** An application that answers `/404` with the status 404, behind a middleware. */
export const answering = (middleware) =>
  express()
    .use(middleware)
    .get("/:status", (request, response) => {
      response.sendStatus(Number(request.params.status));
    });
