import './kit/tokens.css'
import './kit/base.css'
import './kit/kit.css'
import './app/shell.css'
import './pages/pages.css'
import './canvas/canvas.css'
import { QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { RouterProvider } from '@tanstack/react-router'
import { createRoot } from 'react-dom/client'
import { Failure } from './api/client'
import { onKey } from './app/keys'
import { paint } from './app/preferences'
import { makeRouter } from './app/router'
import { LiveStore, openWorker, setLive } from './live/live'

paint()
const queries = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 1_000,
      // What the server decided does not change by asking again; what was broken on the way may.
      retry: (failures, e) =>
        failures < 2 && e instanceof Failure && [0, 429, 502, 503].includes(e.problem.status),
      retryDelay: (failures) => 500 * 2 ** failures,
      refetchOnWindowFocus: 'always',
      networkMode: 'always',
    },
    mutations: { networkMode: 'always' },
  },
})
const live = new LiveStore(queries)
setLive(live)
live.start(openWorker)
document.addEventListener('keydown', (e) => onKey(e))

// For tests: whether nothing is being read, how many messages of the stream were handled, and a way to read all again.
Object.assign(window, {
  skein: {
    idle: () => queries.isFetching() === 0 && queries.isMutating() === 0,
    seen: () => live.seen,
    again: () => void queries.invalidateQueries({ refetchType: 'active' }),
  },
})

const root = document.getElementById('root')
if (root) {
  createRoot(root).render(
    <QueryClientProvider client={queries}>
      <RouterProvider router={makeRouter()} />
    </QueryClientProvider>,
  )
}
