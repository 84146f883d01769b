import { assertEquals } from "@std/assert";
import { FrameReader, idFrame, messageFrame, type WorkerMessage } from "../../bench/demo_pipe.ts";

Deno.test("every id and message arrives, in whatever pieces the pipe delivers them", () => {
  const large = 2n ** 63n - 3n;
  const frames = [
    messageFrame({ type: "ready" }),
    idFrame(1n, 4n),
    idFrame(large, large + 2n),
    messageFrame({ type: "failed", reason: "größer" }),
  ];
  const bytes = Uint8Array.from(frames.flatMap((frame) => [...frame]));
  for (let size = 1; size <= bytes.length; size++) {
    const received: (bigint | number | WorkerMessage)[] = [];
    const reader = new FrameReader({
      onRange: (count) => received.push(count),
      onId: (high, low) => received.push(BigInt(high) << 32n | BigInt(low)),
      onMessage: (message) => received.push(message),
    });
    for (let at = 0; at < bytes.length; at += size) reader.push(bytes.subarray(at, at + size));
    assertEquals(received, [
      { type: "ready" },
      3,
      1n,
      2n,
      3n,
      2,
      large,
      large + 1n,
      { type: "failed", reason: "größer" },
    ]);
  }
});
