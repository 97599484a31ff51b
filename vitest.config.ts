import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    // Tests start real servers and etcd processes: a machine under load gets time, a hang still ends.
    testTimeout: 20_000,
    hookTimeout: 30_000,
    pool: 'forks',
  },
})
