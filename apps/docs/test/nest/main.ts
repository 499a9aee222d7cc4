import "reflect-metadata";
import { getRequestListener } from "@hono/node-server";
import type { Board } from "@kit/board";
import type { Lock } from "@kit/lock";
import type { Queue } from "@kit/queue";
import { Body, Controller, HttpCode, Inject, Injectable, Module, Post } from "@nestjs/common";
import type { OnApplicationBootstrap } from "@nestjs/common";
import { NestFactory } from "@nestjs/core";
import { BOARD, type Jobs, KitModule, LOCK, QUEUE } from "./kit.module.js";

/** The worker. Leave it out of a process that only adds jobs. */
@Injectable()
class OrderWorker implements OnApplicationBootstrap {
  @Inject(QUEUE) readonly queue!: Queue<Jobs>;
  @Inject(LOCK) readonly lock!: Lock;

  onApplicationBootstrap(): void {
    this.queue.work(
      {
        // One order of an item at a time, on all servers.
        order: async ({ id, data, signal }) =>
          await this.lock.using(data.item, async () => await send(id, data.item, signal), { signal }),
      },
      { concurrency: 10 },
    );
  }
}

const send = async (id: string, item: string, signal: AbortSignal): Promise<void> => {
  const body = JSON.stringify({ id, item });
  const response = await fetch(`${process.env["PARTNER_URL"]}/order`, { method: "POST", body, signal });
  if (!response.ok) throw new Error(`The partner replied with ${String(response.status)}`);
};

@Controller("orders")
class Orders {
  @Inject(QUEUE) readonly queue!: Queue<Jobs>;

  @Post()
  @HttpCode(202)
  async add(@Body() { item }: { readonly item: string }): Promise<{ readonly id: string }> {
    return { id: await this.queue.add("order", { item }) };
  }
}

@Module({ imports: [KitModule], controllers: [Orders], providers: [OrderWorker] })
class ShopModule {}

const app = await NestFactory.create(ShopModule, { logger: ["error", "warn"] });
app.enableShutdownHooks(["SIGTERM"], { useProcessExit: true });
// Put it behind your login. It is read-only until you set its option `authorize`.
app.use("/board", getRequestListener(app.get<Board>(BOARD)));
const server = await app.listen(Number(process.env["PORT"]));
console.log(`listens: ${server.address().port}`);
