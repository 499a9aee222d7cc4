import "reflect-metadata";
import { type Connection, connect } from "@kit/core";
import { createQueue, type Queue, type Worker } from "@kit/queue";
import { Body, Controller, Get, Headers, HttpCode, HttpException, Inject, Module, Post } from "@nestjs/common";
import type { OnApplicationShutdown } from "@nestjs/common";
import { NestFactory } from "@nestjs/core";
import { handlers, order, quote, readiness } from "./jobs.mjs";

/** The provider: a connection, a queue and a worker, which live as long as the application. */
class Jobs implements OnApplicationShutdown {
  readonly redis: Connection;
  readonly queue: Queue;
  readonly worker: Worker;

  constructor(redis: Connection) {
    this.redis = redis;
    this.queue = createQueue(redis, "shop", { maxAttempts: 5 });
    this.worker = this.queue.work(handlers, { concurrency: 2 });
  }

  /** Nest calls this when the HTTP server has closed: no new requests, and those that had begun have ended. */
  async onApplicationShutdown(): Promise<void> {
    console.log("closes: worker");
    await this.worker.close({ timeoutMs: 15_000 });
    await this.queue.close();
    await this.redis.close();
  }
}

const reply = ({ status, body }: { status: number; body: object }): object => {
  if (status >= 300) throw new HttpException(body, status);
  return body;
};

@Controller()
class Shop {
  @Inject(Jobs) readonly jobs!: Jobs;

  @Post("orders")
  @HttpCode(202)
  async order(@Body() data: object, @Headers("idempotency-key") key?: string): Promise<object> {
    return reply(await order(this.jobs.queue, data, key));
  }

  @Post("quotes")
  @HttpCode(200)
  async quote(@Body() data: object): Promise<object> {
    return reply(await quote(this.jobs.queue, data));
  }

  @Get("health")
  async health(): Promise<object> {
    return reply(await readiness(this.jobs.redis));
  }

  @Get("alive")
  alive(): object {
    return { ok: true };
  }
}

// Redis may fail over meanwhile.
const start = async () => new Jobs(await connect({ url: process.env["REDIS_URL"], deadlineMs: 20_000 }));
const jobs = { provide: Jobs, useFactory: start };

@Module({ controllers: [Shop], providers: [jobs] })
class ShopModule {}

const app = await NestFactory.create(ShopModule, { logger: ["error", "warn"] });
const server = await app.listen(Number(process.env["PORT"]));
console.log(`listens: ${server.address().port}`);
process.once("SIGTERM", () => setInterval(() => server.closeIdleConnections(), 100).unref());
app.enableShutdownHooks(["SIGTERM"], { useProcessExit: true });
