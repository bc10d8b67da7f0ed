// The colours of the page for canvases, which cannot use custom properties.
import type { Tone } from '../kit/states'

export type Ink = {
  ground: string
  box: string
  line: string
  edge: string
  text: string
  muted: string
  focus: string
  selected: string
  font: string
  tones: Record<Tone, { tone: string; soft: string }>
}

const tones: Tone[] = ['good', 'busy', 'calm', 'warn', 'bad', 'over']

/** Reads the colours of the present theme. */
export function readInk(): Ink {
  const probe = document.createElement('i')
  document.body.append(probe)
  const colour = (name: string) => {
    probe.style.color = `var(--${name})`
    return getComputedStyle(probe).color
  }
  const ink: Ink = {
    ground: colour('bg'),
    box: colour('raised'),
    line: colour('line'),
    edge: colour('line-strong'),
    text: colour('text'),
    muted: colour('muted'),
    focus: colour('focus'),
    selected: colour('selected'),
    font: getComputedStyle(document.body).fontFamily,
    tones: Object.fromEntries(
      tones.map((t) => [t, { tone: colour(t), soft: colour(`${t}-soft`) }]),
    ) as Ink['tones'],
  }
  probe.remove()
  return ink
}

/** Writes rgb(r, g, b) as the number that ImageData has for it in little-endian memory. */
export function pixel(colour: string): number {
  const [r = 0, g = 0, b = 0] = (colour.match(/[\d.]+/g) ?? []).map(Number)
  return ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0
}
