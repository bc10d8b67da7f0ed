// The types of connections that have a form.
import type { Connection } from '../../api/types'
import { t } from '../../text/t'
import type { Field, Kinds } from './channeldata'

const field = (name: string, label: string, hint: string, more: Partial<Field> = {}): Field => ({
  name,
  label,
  hint,
  takes: 'text',
  ...more,
})

const must = { required: true }
const password = field(
  'password',
  t('Secret with the password'),
  t('The name of a secret of the namespace.'),
  {
    takes: 'secret',
  },
)
const authority = field(
  'ca',
  t('Certificate of the authority'),
  t('In PEM. Default: the authorities of the system.'),
  {
    takes: 'lines',
  },
)

const server = (port: number, database: string): Field[] => [
  field('host', t('Machine'), t('Its name or address.'), must),
  field('port', t('Port'), t('Default: {value}.', { value: port }), { takes: 'number' }),
  field('user', t('User'), t('As whom tasks sign in.'), must),
  password,
  field('database', t('Database'), database),
  field('tls', 'TLS', t('Default: verify, the certificate must be one for the machine.'), {
    takes: 'choice',
    choices: ['verify', 'encrypt', 'disable'],
  }),
  authority,
]

export const types: Kinds = {
  http: {
    does: t('requests to a server'),
    fields: [
      field(
        'url',
        t('Address'),
        t('The beginning of each request, such as {example}.', { example: 'https://crm.example.com/api' }),
        must,
      ),
      field('token', t('Secret with the token'), t('It becomes the header Authorization: Bearer.'), {
        takes: 'secret',
      }),
      field('user', t('User'), t('With a password, in place of a token.')),
      password,
      field('test', t('Path of a test'), t('Default: {value}.', { value: '/' })),
    ],
  },
  postgres: {
    does: t('a database of PostgreSQL'),
    fields: server(5432, t('Default: the one with the name of the user.')),
  },
  mysql: {
    does: t('a database of MySQL or MariaDB'),
    fields: server(3306, t('Without one, statements name the database.')),
  },
  sqlite: {
    does: t('a file of SQLite'),
    fields: [
      field('path', t('Path'), t('Absolute, on the machine that runs the task. The file must exist.'), must),
    ],
  },
  clickhouse: {
    does: t('a server of ClickHouse'),
    fields: [
      field(
        'url',
        t('Address'),
        t('Of the HTTP interface, such as {example}.', { example: 'https://clickhouse.example.com:8443' }),
        must,
      ),
      field('database', t('Database'), t('Default: that of the user.')),
      field('user', t('User'), t('Default: {value}.', { value: 'default' })),
      password,
      authority,
    ],
  },
  ssh: {
    does: t('commands on another machine'),
    fields: [
      field('host', t('Machine'), t('Its name or address.'), must),
      field('port', t('Port'), t('Default: {value}.', { value: '22' }), { takes: 'number' }),
      field('user', t('User'), t('On that machine.'), must),
      field('key', t('Secret with the private key'), t('A key without a passphrase.'), {
        takes: 'secret',
        required: true,
      }),
      field('known_hosts', t('Keys of the machine'), t('What ssh-keyscan prints, after you compared it.'), {
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
