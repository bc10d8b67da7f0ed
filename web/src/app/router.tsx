import {
  createRootRoute,
  createRoute,
  createRouter,
  lazyRouteComponent,
  retainSearchParams,
} from '@tanstack/react-router'
import { basePath } from '../api/client'
import { ProblemBox } from '../kit/problem'
import { Home } from '../pages/home'
import { t } from '../text/t'
import { every, only, parseSearch, stringifySearch } from './search'
import { Shell } from './shell'

const root = createRootRoute({
  component: Shell,
  validateSearch: only('ns', 'ask'),
  search: { middlewares: [retainSearchParams(['ns'])] },
  notFoundComponent: () => (
    <div className="empty">
      <h1>{t('There is no such page')}</h1>
      <p>{t('Press Ctrl-K to find a page, a workflow or a run.')}</p>
    </div>
  ),
  errorComponent: ({ error }) => <ProblemBox error={error as Error} retry={() => location.reload()} />,
})

const parent = () => root

/** Every page of Skein: its address, and the values in it that say what is shown. */
const routes = [
  createRoute({ getParentRoute: parent, path: '/', component: Home }),
  createRoute({
    getParentRoute: parent,
    path: '/workflows',
    validateSearch: only('q', 'state', 'sort', 'tag'),
    component: lazyRouteComponent(() => import('../pages/workflows'), 'Workflows'),
  }),
  createRoute({
    getParentRoute: parent,
    path: '/w/$ns/$name',
    validateSearch: only(
      'tab',
      'version',
      'compare',
      'state',
      'task',
      'q',
      'sort',
      'run',
      'cursor',
      'show',
      'group',
      'open',
      'against',
    ),
    component: lazyRouteComponent(() => import('../pages/workflow'), 'Workflow'),
  }),
  createRoute({
    getParentRoute: parent,
    path: '/w/$ns/$name/start',
    validateSearch: every,
    component: lazyRouteComponent(() => import('../pages/start'), 'Start'),
  }),
  createRoute({
    getParentRoute: parent,
    path: '/edit/$ns/$name',
    validateSearch: only('task', 'new', 'from'),
    component: lazyRouteComponent(() => import('../pages/editor'), 'Editor'),
  }),
  createRoute({
    getParentRoute: parent,
    path: '/runs',
    validateSearch: only(
      'state',
      'workflow',
      'user',
      'since',
      'cursor',
      'backfill',
      'trigger',
      'node',
      'q',
      'tag',
    ),
    component: lazyRouteComponent(() => import('../pages/runs'), 'Runs'),
  }),
  createRoute({
    getParentRoute: parent,
    path: '/r/$id',
    validateSearch: only(
      'view',
      'task',
      'tab',
      'attempt',
      'q',
      're',
      'all',
      'l',
      'lv',
      'state',
      'critical',
      'from',
      'to',
      'fold',
      'at',
      'group',
      'open',
      'against',
    ),
    component: lazyRouteComponent(() => import('../pages/run'), 'RunPage'),
  }),
  createRoute({
    getParentRoute: parent,
    path: '/compare',
    validateSearch: only('a', 'b'),
    component: lazyRouteComponent(() => import('../pages/compare'), 'Compare'),
  }),
  createRoute({
    getParentRoute: parent,
    path: '/r/$id/log/$task',
    validateSearch: only('attempt', 'l', 'q', 're', 'all', 'lv', 'follow'),
    component: lazyRouteComponent(() => import('../pages/log'), 'LogPage'),
  }),
  createRoute({
    getParentRoute: parent,
    path: '/schedules',
    validateSearch: only('q', 'state'),
    component: lazyRouteComponent(() => import('../pages/schedules'), 'Schedules'),
  }),
  createRoute({
    getParentRoute: parent,
    path: '/schedules/next',
    validateSearch: only('workflow'),
    component: lazyRouteComponent(() => import('../pages/schedules'), 'Next'),
  }),
  createRoute({
    getParentRoute: parent,
    path: '/schedules/calendar',
    validateSearch: only('view', 'day', 'workflow', 'trigger', 'rule', 'from', 'to'),
    component: lazyRouteComponent(() => import('../pages/calendar'), 'Calendar'),
  }),
  createRoute({
    getParentRoute: parent,
    path: '/schedules/missed',
    validateSearch: only('outcome', 'since', 'cursor'),
    component: lazyRouteComponent(() => import('../pages/schedules'), 'Missed'),
  }),
  createRoute({
    getParentRoute: parent,
    path: '/t/$ns/$workflow/$trigger',
    component: lazyRouteComponent(() => import('../pages/trigger'), 'TriggerPage'),
  }),
  createRoute({
    getParentRoute: parent,
    path: '/search',
    validateSearch: only('q'),
    component: lazyRouteComponent(() => import('../pages/search'), 'SearchPage'),
  }),
  createRoute({
    getParentRoute: parent,
    path: '/approvals',
    component: lazyRouteComponent(() => import('../pages/approvals'), 'Approvals'),
  }),
  createRoute({
    getParentRoute: parent,
    path: '/alerts',
    validateSearch: only('state', 'workflow', 'cursor'),
    component: lazyRouteComponent(() => import('../pages/alerts'), 'Alerts'),
  }),
  createRoute({
    getParentRoute: parent,
    path: '/silences',
    validateSearch: only('state'),
    component: lazyRouteComponent(() => import('../pages/silences'), 'Silences'),
  }),
  createRoute({
    getParentRoute: parent,
    path: '/alerts/$id',
    component: lazyRouteComponent(() => import('../pages/alert'), 'AlertPage'),
  }),
  createRoute({
    getParentRoute: parent,
    path: '/backfills',
    validateSearch: only('state'),
    component: lazyRouteComponent(() => import('../pages/backfills'), 'Backfills'),
  }),
  createRoute({
    getParentRoute: parent,
    path: '/backfills/new',
    validateSearch: only('workflow', 'trigger', 'from', 'to', 'parallel', 'only', 'order'),
    component: lazyRouteComponent(() => import('../pages/newbackfill'), 'NewBackfill'),
  }),
  createRoute({
    getParentRoute: parent,
    path: '/backfills/$id',
    validateSearch: only('cursor'),
    component: lazyRouteComponent(() => import('../pages/backfills'), 'BackfillPage'),
  }),
  createRoute({
    getParentRoute: parent,
    path: '/admin',
    component: lazyRouteComponent(() => import('../pages/admin/parts'), 'Admin'),
  }),
  createRoute({
    getParentRoute: parent,
    path: '/admin/me',
    component: lazyRouteComponent(() => import('../pages/admin/me'), 'MePage'),
  }),
  createRoute({
    getParentRoute: parent,
    path: '/admin/users',
    validateSearch: only('q', 'state', 'kind'),
    component: lazyRouteComponent(() => import('../pages/admin/users'), 'Users'),
  }),
  createRoute({
    getParentRoute: parent,
    path: '/admin/users/$name',
    component: lazyRouteComponent(() => import('../pages/admin/user'), 'UserPage'),
  }),
  createRoute({
    getParentRoute: parent,
    path: '/admin/roles',
    validateSearch: only('role', 'q', 'where'),
    component: lazyRouteComponent(() => import('../pages/admin/roles'), 'Roles'),
  }),
  createRoute({
    getParentRoute: parent,
    path: '/admin/tokens',
    validateSearch: only('q', 'state'),
    component: lazyRouteComponent(() => import('../pages/admin/tokens'), 'Tokens'),
  }),
  createRoute({
    getParentRoute: parent,
    path: '/admin/namespaces',
    component: lazyRouteComponent(() => import('../pages/admin/namespaces'), 'Namespaces'),
  }),
  createRoute({
    getParentRoute: parent,
    path: '/admin/secrets',
    validateSearch: only('q'),
    component: lazyRouteComponent(() => import('../pages/admin/secrets'), 'Secrets'),
  }),
  createRoute({
    getParentRoute: parent,
    path: '/admin/connections',
    validateSearch: only('q', 'type'),
    component: lazyRouteComponent(() => import('../pages/admin/connections'), 'Connections'),
  }),
  createRoute({
    getParentRoute: parent,
    path: '/admin/channels',
    validateSearch: only('q', 'kind'),
    component: lazyRouteComponent(() => import('../pages/admin/channels'), 'Channels'),
  }),
  createRoute({
    getParentRoute: parent,
    path: '/admin/git',
    validateSearch: only('q'),
    component: lazyRouteComponent(() => import('../pages/admin/git'), 'GitSources'),
  }),
  createRoute({
    getParentRoute: parent,
    path: '/admin/sessions',
    validateSearch: only('q'),
    component: lazyRouteComponent(() => import('../pages/admin/sessions'), 'Sessions'),
  }),
  createRoute({
    getParentRoute: parent,
    path: '/admin/audit',
    validateSearch: only('principal', 'verb', 'since', 'cursor'),
    component: lazyRouteComponent(() => import('../pages/admin/audit'), 'AuditLog'),
  }),
  createRoute({
    getParentRoute: parent,
    path: '/queues',
    component: lazyRouteComponent(() => import('../pages/queues'), 'Queues'),
  }),
  createRoute({
    getParentRoute: parent,
    path: '/q/$name',
    component: lazyRouteComponent(() => import('../pages/queues'), 'QueuePage'),
  }),
  createRoute({
    getParentRoute: parent,
    path: '/locks',
    component: lazyRouteComponent(() => import('../pages/queues'), 'Locks'),
  }),
  createRoute({
    getParentRoute: parent,
    path: '/cluster',
    component: lazyRouteComponent(() => import('../pages/cluster'), 'Cluster'),
  }),
  createRoute({
    getParentRoute: parent,
    path: '/n/$name',
    component: lazyRouteComponent(() => import('../pages/node'), 'NodePage'),
  }),
  createRoute({
    getParentRoute: parent,
    path: '/admin/about',
    component: lazyRouteComponent(() => import('../pages/admin/about'), 'About'),
  }),
]

export const makeRouter = () =>
  createRouter({
    routeTree: root.addChildren(routes),
    basepath: basePath || '/',
    parseSearch,
    stringifySearch,
    defaultPreload: 'intent',
    scrollRestoration: true,
  })

declare module '@tanstack/react-router' {
  interface Register {
    router: ReturnType<typeof makeRouter>
  }
}
