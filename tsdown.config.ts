import { defineConfig, type UserConfig } from 'tsdown'

const common: UserConfig = {
  platform: 'node',
  target: 'node20',
  clean: true,
  fixedExtension: false,
  // How long a plugin took says something about the machine, and warnings end a build in CI.
  checks: { pluginTimings: false },
}

export default defineConfig([
  {
    ...common,
    entry: { index: 'src/index.ts' },
    format: ['esm', 'cjs'],
    dts: true,
    outDir: 'dist',
  },
  {
    ...common,
    entry: { gateway: 'examples/gateway/main.ts', upstream: 'examples/upstream/main.ts' },
    format: ['esm'],
    dts: false,
    outDir: 'examples/dist',
    // The examples use the package as built, as its users do.
    deps: { neverBundle: ['consistent-hash-proxy', 'express', 'pino', 'zod'] },
  },
])
