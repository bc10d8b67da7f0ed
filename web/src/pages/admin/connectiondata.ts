// The types of connections that have a form.
import type { Connection } from '../../api/types'
import type { Field, Kinds } from './channeldata'

const field = (name: string, label: string, hint: string, more: Partial<Field> = {}): Field => ({
  name,
  label,
  hint,
  takes: 'text',
  ...more,
})

const must = { required: true }
const password = field('password', 'Secret with the password', 'The name of a secret of the namespace.', {
  takes: 'secret',
})
const authority = field(
  'ca',
  'Certificate of the authority',
  'In PEM. Default: the authorities of the system.',
  {
    takes: 'lines',
  },
)

const server = (port: number, database: string): Field[] => [
  field('host', 'Machine', 'Its name or address.', must),
  field('port', 'Port', `Default: ${port}.`, { takes: 'number' }),
  field('user', 'User', 'As whom tasks sign in.', must),
  password,
  field('database', 'Database', database),
  field('tls', 'TLS', 'Default: verify, the certificate must be one for the machine.', {
    takes: 'choice',
    choices: ['verify', 'encrypt', 'disable'],
  }),
  authority,
]

export const types: Kinds = {
  http: {
    does: 'requests to a server',
    fields: [
      field('url', 'Address', 'The beginning of each request, such as https://crm.example.com/api.', must),
      field('token', 'Secret with the token', 'It becomes the header Authorization: Bearer.', {
        takes: 'secret',
      }),
      field('user', 'User', 'With a password, in place of a token.'),
      password,
      field('test', 'Path of a test', 'Default: /.'),
    ],
  },
  postgres: {
    does: 'a database of PostgreSQL',
    fields: server(5432, 'Default: the one with the name of the user.'),
  },
  mysql: {
    does: 'a database of MySQL or MariaDB',
    fields: server(3306, 'Without one, statements name the database.'),
  },
  sqlite: {
    does: 'a file of SQLite',
    fields: [
      field('path', 'Path', 'Absolute, on the machine that runs the task. The file must exist.', must),
    ],
  },
  clickhouse: {
    does: 'a server of ClickHouse',
    fields: [
      field('url', 'Address', 'Of the HTTP interface, such as https://clickhouse.example.com:8443.', must),
      field('database', 'Database', 'Default: that of the user.'),
      field('user', 'User', 'Default: default.'),
      password,
      authority,
    ],
  },
  ssh: {
    does: 'commands on another machine',
    fields: [
      field('host', 'Machine', 'Its name or address.', must),
      field('port', 'Port', 'Default: 22.', { takes: 'number' }),
      field('user', 'User', 'On that machine.', must),
      field('key', 'Secret with the private key', 'A key without a passphrase.', {
        takes: 'secret',
        required: true,
      }),
      field('known_hosts', 'Keys of the machine', 'What ssh-keyscan prints, after you compared it.', {
        takes: 'lines',
        required: true,
      }),
    ],
  },
}

const isObject = (v: unknown): v is Record<string, unknown> => typeof v === 'object' && v !== null

/** The address of a connection, in one line. */
export function sideOf(c: Pick<Connection, 'type' | 'config'>): string {
  const all = isObject(c.config) ? c.config[c.type] : undefined
  if (!isObject(all)) return ''
  const text = (name: string) => (all[name] === undefined ? '' : String(all[name]))
  if (text('url') || text('path')) return text('url') || text('path')
  const place = `${text('host')}${text('port') ? `:${text('port')}` : ''}`
  return `${text('user') ? `${text('user')}@` : ''}${place}${text('database') ? `/${text('database')}` : ''}`
}
