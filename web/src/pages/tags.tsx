import { Link } from '@tanstack/react-router'
import { t } from '../text/t'

type All = Record<string, string>

/** The tag of a filter, or undefined while its text is not KEY=VALUE. */
export const tagOf = (text: string | undefined) => (text && /^[^=]+=./.test(text) ? text : undefined)

/**
 * Reports whether tags contain the tag of a filter. While the text of the filter is incomplete, every object
 * matches.
 */
export function tagged(of: All | undefined, text: string) {
  const tag = tagOf(text)
  return !tag || Object.entries(of ?? {}).some(([key, value]) => `${key}=${value}` === tag)
}

/** Tags as links to the runs that have them. */
export function Tags({ of }: { of: All | undefined }) {
  if (!of) return null
  return (
    <>
      {Object.entries(of).map(([key, value]) => (
        <Link
          key={key}
          className="tag"
          to="/runs"
          search={{ tag: `${key}=${value}` }}
          title={t('Runs with this tag')}
        >
          {key}={value}
        </Link>
      ))}
    </>
  )
}
