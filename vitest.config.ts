import { defineConfig } from 'vitest/config'

/** What a transport has a part in: the same tests for both, so that both give the same observable answers. */
const forEachTransport = [
  ...['transport', 'hazards', 'proxy', 'websocket', 'key-gateway'].map((room) => `test/${room}/**/*.test.ts`),
  ...['cases', 'clients', 'hostile', 'retry-storm', 'upstream-killed', 'upstream-misbehaves'].map(
    (faults) => `test/faults/${faults}.test.ts`,
  ),
]

export default defineConfig({
  test: {
    // Tests start real servers and etcd processes: a machine under load gets time, a hang still ends.
    testTimeout: 20_000,
    hookTimeout: 30_000,
    pool: 'forks',
    projects: [
      { extends: true, test: { name: 'http-proxy', include: ['test/**/*.test.ts'] } },
      { extends: true, test: { name: 'undici', include: forEachTransport, env: { TRANSPORT: 'undici' } } },
    ],
  },
})
