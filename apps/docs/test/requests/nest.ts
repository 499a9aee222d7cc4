import "reflect-metadata";
import { connect, type Connection } from "@kit/core";
import { Controller, Get, Module, type OnApplicationShutdown } from "@nestjs/common";
import { APP_GUARD, NestFactory } from "@nestjs/core";
import { ThrottlerGuard, ThrottlerModule, type ThrottlerStorage } from "@nestjs/throttler";
import { hitsOf, limitersOf } from "./stores.mjs";

class LimiterStorage implements ThrottlerStorage, OnApplicationShutdown {
  readonly #redis: Connection;
  readonly #limiters: ReturnType<typeof limitersOf>;

  constructor(redis: Connection) {
    this.#redis = redis;
    this.#limiters = limitersOf(redis, "nest");
  }

  // Nest's key contains the names of the route and of the throttler.
  async increment(key: string, ttl: number, limit: number, blockDuration: number) {
    const limiter = this.#limiters.get(limit, ttl);
    const decision = await limiter.consume(key);
    const isNew = !decision.allowed && decision.refusedBy !== "block" && blockDuration !== ttl;
    if (isNew) await limiter.block(key, blockDuration);
    const { hits, leftMs } = hitsOf(isNew ? { ...decision, retryAfterMs: blockDuration } : decision, limit);
    const seconds = Math.ceil(leftMs / 1_000);
    return { totalHits: hits, timeToExpire: seconds, isBlocked: !decision.allowed, timeToBlockExpire: seconds };
  }

  async onApplicationShutdown(): Promise<void> {
    await this.#limiters.close();
    await this.#redis.close();
  }
}

@Controller()
class Hello {
  @Get()
  hello(): string {
    return "hello";
  }
}

const storage = new LimiterStorage(await connect({ url: process.env["REDIS_URL"] }));
const throttlers = [{ limit: 3, ttl: 60_000, blockDuration: 120_000 }];

@Module({
  imports: [ThrottlerModule.forRoot({ throttlers, storage, ipv6SubnetPrefix: 64 })],
  controllers: [Hello],
  providers: [
    { provide: APP_GUARD, useClass: ThrottlerGuard },
    { provide: LimiterStorage, useValue: storage },
  ],
})
class HelloModule {}

const app = await NestFactory.create(HelloModule, { logger: ["error", "warn"] });
app.getHttpAdapter().getInstance().set("trust proxy", "loopback, 10.0.0.0/8");
app.enableShutdownHooks();
const server = await app.listen(Number(process.env["PORT"]));
console.log(`listens: ${server.address().port}`);
