import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'

const css = readFileSync('src/kit/tokens.css', 'utf8')
const pairs = new Map(
  [...css.matchAll(/--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)/g)].map((m) => [m[1], [m[2], m[3]]]),
)
const tones = ['good', 'busy', 'calm', 'warn', 'bad', 'over']

const channels = (hex: string) => [1, 3, 5].map((i) => Number.parseInt(hex.slice(i, i + 2), 16) / 255)
const linear = (hex: string) =>
  channels(hex).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
const luminance = (hex: string) => {
  const [r = 0, g = 0, b = 0] = linear(hex)
  return 0.2126 * r + 0.7152 * g + 0.0722 * b
}
const contrast = (a: string, b: string) => {
  const [x = 0, y = 0] = [luminance(a), luminance(b)].sort((m, n) => n - m)
  return (x + 0.05) / (y + 0.05)
}

test.each([0, 1])('text and marks can be told from their ground (theme %i)', (theme) => {
  const colour = (name: string) =>
    pairs.get(name)?.[theme] ?? expect.unreachable(`there is no colour ${name}`)
  for (const ground of ['bg', 'panel', 'raised', 'hover', 'selected']) {
    for (const text of ['text', 'muted', 'link'])
      expect(contrast(colour(text), colour(ground)), `${text} on ${ground}`).toBeGreaterThanOrEqual(4.5)
  }
  for (const tone of tones) {
    expect(contrast(colour(tone), colour('raised')), `mark ${tone}`).toBeGreaterThanOrEqual(3)
    for (const ground of ['raised', 'hover', 'selected', `${tone}-soft`])
      expect(
        contrast(colour(`${tone}-text`), colour(ground)),
        `${tone}-text on ${ground}`,
      ).toBeGreaterThanOrEqual(4.5)
  }
  expect(contrast(colour('on-accent'), colour('accent'))).toBeGreaterThanOrEqual(4.5)
  expect(contrast(colour('line-strong'), colour('raised')), 'borders of fields').toBeGreaterThanOrEqual(3)
})
