import { defineConfig } from 'tsdown'

export default defineConfig([
  {
    entry: { index: 'src/index.ts' },
    format: ['esm', 'cjs'],
    dts: true,
    platform: 'node',
    target: 'node20',
    outDir: 'dist',
    clean: true,
    fixedExtension: false,
  },
  {
    entry: { gateway: 'examples/gateway/main.ts', upstream: 'examples/upstream/main.ts' },
    format: ['esm'],
    dts: false,
    platform: 'node',
    target: 'node20',
    outDir: 'examples/dist',
    clean: true,
    fixedExtension: false,
  },
])
