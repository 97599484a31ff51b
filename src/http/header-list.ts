import type { OutgoingHttpHeaders } from 'node:http'

/** Headers as Node has them raw, names and values in turn, from those by name. */
export function toHeaderList(headers: OutgoingHttpHeaders): string[] {
  const list: string[] = []
  for (const name in headers) {
    const value = headers[name]
    if (value === undefined) continue
    if (Array.isArray(value)) for (const item of value) list.push(name, item)
    else list.push(name, String(value))
  }
  return list
}

/** By lower-case name, on an object without prototype: names that come from elsewhere may be `__proto__`. */
export function fromHeaderList(list: readonly string[]): OutgoingHttpHeaders {
  const headers: Record<string, string | string[]> = Object.create(null)
  for (let index = 0; index + 1 < list.length; index += 2) {
    const name = (list[index] as string).toLowerCase()
    const value = list[index + 1] as string
    const before = headers[name]
    headers[name] = before === undefined ? value : [before, value].flat()
  }
  return headers
}
