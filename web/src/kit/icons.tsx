// Symbols of 16 px, drawn as strokes. State glyphs are part of the design, see states.ts.
const paths: Record<string, string> = {
  check: 'M3.5 8.5l3 3 6-7',
  cross: 'M4 4l8 8M12 4l-8 8',
  play: 'M5.5 3.8v8.4l6.5-4.2z',
  square: 'M4.5 4.5h7v7h-7z',
  dot: 'M8 6.5a1.5 1.5 0 1 0 0 3a1.5 1.5 0 1 0 0-3',
  clock: 'M8 4.6V8l2.4 1.6',
  retry: 'M12.5 8a4.5 4.5 0 1 1-1.4-3.3M12.5 2.6v2.8H9.7',
  pause: 'M5.8 4v8M10.2 4v8',
  bolt: 'M9 2.5L4.5 9h3l-.8 4.5L11.5 7h-3z',
  barred: 'M4 12l8-8',
  stop: 'M5 5h6v6H5z',
  diamond: 'M8 3.5L12.5 8 8 12.5 3.5 8z',
  home: 'M2.5 7.5L8 3l5.5 4.5M4 6.5V13h8V6.5',
  workflow: 'M3 3h4v4H3zM9 9h4v4H9zM7 5h4v4',
  runs: 'M5.5 3.8v8.4l6.5-4.2zM3 3v10',
  calendar: 'M3 4.5h10V13H3zM3 7.5h10M5.5 3v2.5M10.5 3v2.5',
  queue: 'M3 4h10M3 8h7M3 12h4',
  cluster: 'M3 3h10v4H3zM3 9h10v4H3zM5 5h.01M5 11h.01',
  key: 'M10 3a3 3 0 1 0 0 6 3 3 0 0 0 0-6M8 8l-5 5M4.5 11.5L6 13',
  search: 'M7 3a4 4 0 1 0 0 8 4 4 0 0 0 0-8M10 10l3.5 3.5',
  hand: 'M4 8l2.5 2.5L12 5M2.5 3h11v10h-11z',
  more: 'M3.5 8h.01M8 8h.01M12.5 8h.01',
  down: 'M4 6l4 4 4-4',
  right: 'M6 4l4 4-4 4',
  left: 'M10 4L6 8l4 4',
  sun: 'M8 5.5a2.5 2.5 0 1 0 0 5 2.5 2.5 0 0 0 0-5M8 1.8v1.4M8 12.8v1.4M1.8 8h1.4M12.8 8h1.4M3.6 3.6l1 1M11.4 11.4l1 1M12.4 3.6l-1 1M4.6 11.4l-1 1',
  moon: 'M12.8 9.6A5.2 5.2 0 0 1 6.4 3.2a5.2 5.2 0 1 0 6.4 6.4z',
  copy: 'M5.5 5.5h7v7h-7zM3.5 10.5v-7h7',
  download: 'M8 3v7M5 7.5L8 10.5l3-3M3.5 13h9',
  link: 'M6.8 9.2l2.4-2.4M7.5 5.5l1.2-1.2a2.3 2.3 0 0 1 3.2 3.2l-1.2 1.2M8.5 10.5l-1.2 1.2a2.3 2.3 0 0 1-3.2-3.2l1.2-1.2',
  filter: 'M2.5 4h11M4.5 8h7M6.5 12h3',
  plus: 'M8 3.5v9M3.5 8h9',
  minus: 'M3.5 8h9',
  fit: 'M3 6V3h3M10 3h3v3M13 10v3h-3M6 13H3v-3',
  back: 'M13 8H3.5M7 4L3 8l4 4',
  warn: 'M8 2.8l5.8 10.4H2.2zM8 6.5v3M8 11.4h.01',
  info: 'M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11M8 7.5v3.2M8 5.2h.01',
  bell: 'M4.5 11V7.2a3.5 3.5 0 0 1 7 0V11l1.2 1.5H3.3zM7 14h2',
  keyboard: 'M2 4.5h12v7H2zM4.5 7h.01M7 7h.01M9.5 7h.01M11.8 7h.01M5 9.5h6',
}

const filled = new Set(['play', 'stop', 'dot', 'bolt'])

const known = new Map<string, Path2D>()

/** The path of a symbol for canvases; a browser without paths draws none. */
export function iconPath(name: string): Path2D | undefined {
  if (typeof Path2D === 'undefined') return undefined
  const path = known.get(name) ?? new Path2D(paths[name] ?? paths.dot)
  known.set(name, path)
  return path
}

export const isFilled = (name: string) => filled.has(name)

export function Icon({ name, size = 16 }: { name: string; size?: number }) {
  return (
    <svg
      width={size}
      height={size}
      viewBox="0 0 16 16"
      fill={filled.has(name) ? 'currentColor' : 'none'}
      stroke="currentColor"
      strokeWidth="1.6"
      strokeLinecap="round"
      strokeLinejoin="round"
      aria-hidden="true"
    >
      <path d={paths[name] ?? paths.dot} />
    </svg>
  )
}
