/**
 * Rates how well a text matches a few letters. 0 means no match, and a higher number is a better match. The
 * letters must occur in the text in their order.
 */
export function score(query: string, text: string): number {
  const wanted = query.trim().toLowerCase()
  if (wanted === '') return 1
  const has = text.toLowerCase()
  const at = has.indexOf(wanted)
  if (at >= 0) return 1000 - at - has.length / 100 + (at === 0 || /[\s/_-]/.test(has[at - 1] ?? '') ? 500 : 0)
  let points = 0
  let from = 0
  for (const letter of wanted.replaceAll(' ', '')) {
    const found = has.indexOf(letter, from)
    if (found < 0) return 0
    points += found === from || /[\s/_-]/.test(has[found - 1] ?? '') ? 3 : 1
    from = found + 1
  }
  return points / (1 + has.length / 40)
}
