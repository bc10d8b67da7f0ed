// The verbs of roles, tokens and the caller, as a list or as a choice.
import { t } from '../../text/t'
import { grouped } from './verbs'

/** Verbs with what they allow, in groups. */
export function VerbList({ verbs }: { verbs: readonly string[] }) {
  return (
    <div className="verb-groups pad">
      {grouped(verbs).map(([title, of]) => (
        <section key={title}>
          <h3>{title}</h3>
          <ul>
            {of.map(([verb, does]) => (
              <li key={verb}>
                {does || verb} {does ? <code className="sub">{verb}</code> : null}
              </li>
            ))}
          </ul>
        </section>
      ))}
    </div>
  )
}

/** A box for each verb, in groups, and one for each group. */
export function VerbChoice({
  all,
  chosen,
  onChange,
}: {
  all: readonly string[]
  chosen: ReadonlySet<string>
  onChange: (verbs: ReadonlySet<string>) => void
}) {
  const set = (verbs: readonly string[], on: boolean) => {
    const to = new Set(chosen)
    for (const v of verbs) on ? to.add(v) : to.delete(v)
    onChange(to)
  }
  return (
    <div className="verb-groups verb-choice tall" tabIndex={0} role="group" aria-label={t('Verbs')}>
      {grouped(all).map(([title, of]) => {
        const names = of.map(([v]) => v)
        const n = names.filter((v) => chosen.has(v)).length
        return (
          <fieldset key={title}>
            <legend>
              <label>
                <input
                  type="checkbox"
                  checked={n === names.length}
                  ref={(box) => {
                    if (box) box.indeterminate = n > 0 && n < names.length
                  }}
                  onChange={(e) => set(names, e.target.checked)}
                />
                {title}
              </label>
            </legend>
            {of.map(([verb, does]) => (
              <label key={verb}>
                <input
                  type="checkbox"
                  checked={chosen.has(verb)}
                  onChange={(e) => set([verb], e.target.checked)}
                />
                <span>
                  {does || verb} {does ? <code className="sub">{verb}</code> : null}
                </span>
              </label>
            ))}
          </fieldset>
        )
      })}
    </div>
  )
}
