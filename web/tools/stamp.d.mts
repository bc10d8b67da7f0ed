export function stamp(): string
export function sources(): string[]
