import { t } from '../../text/t'
// The kinds of channels that have a form, and the conversion between the fields of a form and a
// configuration.

/**
 * A field accepts a text, the name of a secret, either of them, a list with one entry in each line, a number,
 * a text of several lines, or one of some given texts.
 */
export type Field = {
  name: string
  label: string
  hint: string
  takes: 'text' | 'text or secret' | 'secret' | 'list' | 'number' | 'lines' | 'choice'
  choices?: string[]
  required?: boolean
}

/** The kinds of a configured object, such as a channel or a connection, with the fields of each kind. */
export type Kinds = Record<string, { does: string; fields: Field[] }>

const webhookURL: Field = {
  name: 'url',
  label: t('Address'),
  hint: 'https://…',
  takes: 'text or secret',
  required: true,
}

/**
 * The address of a webhook, which is secret like a password: everybody who knows the address can post there.
 */
const secretURL: Field = {
  name: 'url',
  label: t('Secret with the address'),
  hint: t('The address of the webhook is a password: set it as a secret first.'),
  takes: 'secret',
  required: true,
}

const botKey: Field = {
  name: 'secret',
  label: t('Secret that signs the messages'),
  hint: t('The key of the bot, if the bot checks signatures.'),
  takes: 'secret',
}

export const kinds: Kinds = {
  webhook: {
    does: t('posts JSON to an address'),
    fields: [
      webhookURL,
      {
        name: 'secret',
        label: t('Secret that signs the messages'),
        hint: t('Without one, the receiver cannot know the sender.'),
        takes: 'secret',
      },
    ],
  },
  slack: {
    does: t('posts to Slack, Mattermost or Rocket.Chat'),
    fields: [secretURL],
  },
  email: {
    does: t('sends mail'),
    fields: [
      {
        name: 'to',
        label: t('Recipients'),
        hint: t('One address a line. The settings smtp_url and smtp_from of the node name the server.'),
        takes: 'list',
        required: true,
      },
      {
        name: 'password',
        label: t('Secret with the password of the server'),
        hint: t('Default: the secret smtp of the namespace.'),
        takes: 'secret',
      },
    ],
  },
  teams: {
    does: t('posts a card to Microsoft Teams'),
    fields: [
      {
        ...secretURL,
        hint: t(
          'The address of a workflow “Send webhook alerts to a channel” is a password: set it as a secret first.',
        ),
      },
    ],
  },
  pagerduty: {
    does: t('opens and resolves incidents at PagerDuty'),
    fields: [
      {
        name: 'key',
        label: t('Secret with the integration key'),
        hint: t('The integration key of a service (Events API v2).'),
        takes: 'secret',
        required: true,
      },
      {
        name: 'url',
        label: t('Address of the region'),
        hint: t('Default: that of the United States.'),
        takes: 'text or secret',
      },
    ],
  },
  alertmanager: {
    does: t('opens and resolves alerts at an Alertmanager'),
    fields: [
      {
        name: 'url',
        label: t('Address'),
        hint: t('Its root, such as {example}.', { example: 'http://alertmanager:9093' }),
        takes: 'text or secret',
        required: true,
      },
    ],
  },
  discord: { does: t('posts to Discord'), fields: [secretURL] },
  telegram: {
    does: t('sends a message of a Telegram bot'),
    fields: [
      {
        name: 'chat',
        label: t('Chat'),
        hint: t('The id of a chat such as -1001234567890, or @name of a channel.'),
        takes: 'text',
        required: true,
      },
      {
        name: 'token',
        label: t('Secret with the token of the bot'),
        hint: t('Everybody who knows it can act as the bot: set it as a secret first.'),
        takes: 'secret',
        required: true,
      },
      {
        name: 'url',
        label: t('Address of the server'),
        hint: t('Default: that of Telegram.'),
        takes: 'text or secret',
      },
    ],
  },
  googlechat: { does: t('posts to a space of Google Chat'), fields: [secretURL] },
  dingtalk: { does: t('posts to a group of DingTalk'), fields: [secretURL, botKey] },
  feishu: { does: t('posts a card to a group of Feishu or Lark'), fields: [secretURL, botKey] },
  wecom: { does: t('posts to a group of WeCom'), fields: [secretURL] },
  ntfy: {
    does: t('publishes to a topic of ntfy'),
    fields: [
      {
        name: 'topic',
        label: t('Topic'),
        hint: t('Without a token, the topic is a password: set it as a secret first.'),
        takes: 'text or secret',
        required: true,
      },
      {
        name: 'token',
        label: t('Secret with the access token'),
        hint: t('The access token of a user who may write to the topic.'),
        takes: 'secret',
      },
      {
        name: 'url',
        label: t('Address of the server'),
        hint: t('Default: ntfy.sh.'),
        takes: 'text or secret',
      },
    ],
  },
  command: {
    does: t('runs a program on the node that sends'),
    fields: [
      {
        name: 'run',
        label: t('Program and arguments'),
        hint: t('One argument a line. The node must permit it with alert_commands.'),
        takes: 'list',
        required: true,
      },
    ],
  },
  log: { does: t('writes into the log of the node that sends'), fields: [] },
}

export type Config = Record<string, unknown>

const isObject = (v: unknown): v is Config => typeof v === 'object' && v !== null && !Array.isArray(v)

/**
 * Returns the kind of a configuration. It returns undefined for a configuration with none or with several.
 */
export function kindOf(config: unknown): string | undefined {
  const names = isObject(config) ? Object.keys(config) : []
  return names.length === 1 ? names[0] : undefined
}

/** The name of the secret that a value refers to. */
function secretOf(value: unknown): string | undefined {
  if (!isObject(value) || Object.keys(value).length !== 1) return undefined
  return typeof value.secret === 'string' ? value.secret : undefined
}

/** This prefix marks the name of a secret in a field that also accepts a text. */
const secretMark = 'secret:'

/** Returns the texts of the fields, or undefined if the form cannot hold the whole configuration. */
export function textsOf(config: unknown, all = kinds): Record<string, string> | undefined {
  const kind = kindOf(config)
  const form = all[kind ?? '']
  const values = isObject(config) ? config[kind ?? ''] : undefined
  if (!form || !isObject(values)) return undefined
  const out: Record<string, string> = {}
  for (const [name, value] of Object.entries(values)) {
    const text = textOf(form.fields.find((f) => f.name === name)?.takes, value)
    if (text === undefined) return undefined
    out[name] = text
  }
  return out
}

function textOf(takes: Field['takes'] | undefined, value: unknown): string | undefined {
  const secret = secretOf(value)
  if (takes === 'secret') return secret
  if (takes === 'number') return typeof value === 'number' ? String(value) : undefined
  if (takes === 'lines' || takes === 'choice') return typeof value === 'string' ? value : undefined
  if (takes === 'text or secret') {
    if (secret !== undefined) return `${secretMark}${secret}`
    return typeof value === 'string' && !value.startsWith(secretMark) ? value : undefined
  }
  if (takes === 'text') return typeof value === 'string' && value === value.trim() ? value : undefined
  if (takes !== 'list' || !Array.isArray(value)) return undefined
  return value.every((v) => typeof v === 'string' && v !== '' && v === v.trim() && !v.includes('\n'))
    ? value.join('\n')
    : undefined
}

/** Returns the configuration that the texts of the fields describe. */
export function configOf(kind: string, texts: Record<string, string>, all = kinds): Config {
  const values: Config = {}
  for (const field of all[kind]?.fields ?? []) {
    const text = texts[field.name]?.trim() ?? ''
    if (text === '') continue
    values[field.name] = settingOf(field.takes, text)
  }
  return { [kind]: values }
}

function settingOf(takes: Field['takes'], text: string): unknown {
  if (takes === 'secret') return { secret: text }
  if (takes === 'number') return Number(text)
  if (takes === 'text' || takes === 'choice') return text
  if (takes === 'lines') return `${text}\n`
  if (takes === 'list')
    return text
      .split('\n')
      .map((line) => line.trim())
      .filter((line) => line !== '')
  return text.startsWith(secretMark) ? { secret: text.slice(secretMark.length).trim() } : text
}

/** Returns the names of the required fields without a text. */
export const missing = (kind: string, texts: Record<string, string>, all = kinds): string[] =>
  (all[kind]?.fields ?? []).filter((f) => f.required && !texts[f.name]?.trim()).map((f) => f.label)

/** Reads a configuration that was written as JSON, or says what is wrong. */
export function parsed(text: string): { config: Config } | { fault: string } {
  try {
    const config: unknown = JSON.parse(text)
    if (!kindOf(config))
      return {
        fault: t('Exactly one kind with its settings, such as {example}.', { example: '{"log": {}}' }),
      }
    return { config: config as Config }
  } catch (e) {
    return { fault: e instanceof Error ? e.message : String(e) }
  }
}

/** Describes in one line the target of a channel. */
export function targetOf(config: unknown): string {
  const kind = kindOf(config)
  const values = isObject(config) ? config[kind ?? ''] : undefined
  if (!isObject(values)) return ''
  const say = (value: unknown): string => {
    const secret = secretOf(value)
    if (secret !== undefined) return t('secret {name}', { name: secret })
    if (Array.isArray(value)) return value.map(say).join(kind === 'command' ? ' ' : ', ')
    return typeof value === 'string' ? value : ''
  }
  const [first] = kinds[kind ?? '']?.fields ?? []
  return say(first ? values[first.name] : Object.values(values)[0])
}
