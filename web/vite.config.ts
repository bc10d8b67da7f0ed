import react from '@vitejs/plugin-react'
import { defineConfig } from 'vitest/config'
import { stamp } from './tools/stamp.mjs'

// The page is built into ui/static/app, which the Go program embeds. Only that folder is emptied.
const node = process.env.SKEIN_URL ?? 'http://127.0.0.1:8080'

export default defineConfig({
  base: './',
  // The page names what it was built from.
  define: { SKEIN_STAMP: JSON.stringify(stamp()) },
  plugins: [react()],
  build: {
    outDir: 'ui/static/app',
    emptyOutDir: true,
    // tools/pack.mjs bounds the compressed sizes.
    chunkSizeWarningLimit: 1000,
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    target: 'es2023',
    cssTarget: 'chrome123',
    rollupOptions: {
      output: {
        entryFileNames: '-/a/[name].[hash].js',
        chunkFileNames: '-/a/[name].[hash].js',
        assetFileNames: '-/a/[name].[hash][extname]',
        // One file has all that the first page needs, so that few requests come before its data.
        codeSplitting: { groups: [{ name: 'base', tags: ['$initial'] }] },
      },
    },
  },
  worker: { format: 'es', rollupOptions: { output: { entryFileNames: '-/a/[name].[hash].js' } } },
  server: {
    // The node refuses requests of foreign origins, so the proxy names the node itself.
    proxy: Object.fromEntries(
      ['/api', '/version'].map((path) => [
        path,
        { target: node, changeOrigin: true, headers: { origin: node } },
      ]),
    ),
  },
  test: {
    projects: [
      {
        test: {
          name: 'unit',
          include: ['test/unit/**/*.test.{ts,tsx}'],
          environment: 'happy-dom',
          testTimeout: 60_000,
        },
      },
      {
        test: {
          name: 'e2e',
          include: ['test/e2e/**/*.test.ts'],
          environment: 'node',
          // A bound for a machine that is busy, not a limit that is meant to be met.
          testTimeout: 240_000,
          expect: { poll: { timeout: 60_000 } },
          hookTimeout: 120_000,
          // Each file has its own browser and its own nodes, and mostly waits for them.
          maxWorkers: 2,
          maxConcurrency: 2,
        },
      },
      {
        test: {
          name: 'perf',
          include: ['test/perf/**/*.test.ts'],
          environment: 'node',
          testTimeout: 3_600_000,
          hookTimeout: 3_600_000,
        },
      },
      {
        test: {
          name: 'shots',
          include: ['test/shots/**/*.test.ts'],
          environment: 'node',
          testTimeout: 600_000,
          hookTimeout: 60_000,
        },
      },
    ],
  },
})
