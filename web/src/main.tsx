import { language, locale, t } from './text/t'
import './kit/tokens.css'
import './kit/base.css'
import './kit/kit.css'
import './app/shell.css'
import './pages/pages.css'
import './canvas/canvas.css'
import { QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { RouterProvider } from '@tanstack/react-router'
import { I18nProvider } from 'react-aria-components'
import { createRoot } from 'react-dom/client'
import { Failure } from './api/client'
import { signInByAddress, watchPerson } from './api/session'
import { onKey } from './app/keys'
import { paint } from './app/preferences'
import { makeRouter } from './app/router'
import { SignedIn } from './app/signin'
import { toast } from './kit/dialog'
import { LiveStore, openWorker, setLive } from './live/live'
import { forgetDrafts, openDrafts } from './text/drafts'

paint()
document.documentElement.lang = language
const queries = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 1_000,
      // A decision of the server does not change if the request is repeated. An error on the way may not
      // occur again.
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
document.addEventListener('keydown', (e) => onKey(e))

watchPerson({
  forget: forgetDrafts,
  enter: () => {
    openDrafts()
    void queries.invalidateQueries()
  },
  reload: () => location.reload(),
})

// Only for tests: whether the page reads nothing and knows of no change to read, the numbers of messages and of
// kept answers, and a function that reads again.
Object.assign(window, {
  skein: {
    idle: () => queries.isFetching() === 0 && queries.isMutating() === 0 && !live.due,
    seen: () => live.seen,
    kept: () => queries.getQueryCache().getAll().length,
    again: () => void queries.invalidateQueries({ refetchType: 'active' }),
  },
})

const root = document.getElementById('root')
if (root) {
  const arrival = await signInByAddress()
  if (arrival.kept) toast(t('You are signed in already. The code of the address was not used.'))
  live.start(openWorker)
  createRoot(root).render(
    <I18nProvider locale={locale}>
      <QueryClientProvider client={queries}>
        <SignedIn arrival={arrival}>
          <RouterProvider router={makeRouter()} />
        </SignedIn>
      </QueryClientProvider>
    </I18nProvider>,
  )
}
