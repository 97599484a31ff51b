/** The lines that say where the gateway is and what to try. */
export function hints(url: string, adminUrl: string, key: string, upstreams: string): string {
  return `
Gateway on ${url}, key ${key}, upstreams ${upstreams}
Admin on ${adminUrl}: /metrics /status /healthz /readyz

Try
  curl -i ${asUser('alice', key, url)}   # again and again: one x-upstream-id
  curl -s ${adminUrl}/status   # who owns which share
  curl -s ${adminUrl}/metrics | grep requests_total
`
}

/** curl's arguments for a request that has the key, where that is simple to say. */
function asUser(user: string, key: string, url: string): string {
  const [, kind, name] = /^(header|cookie|query):([\w-]+)/.exec(key) ?? []
  if (kind === 'header') return `-H '${name}: ${user}' ${url}/`
  if (kind === 'cookie') return `-b '${name}=${user}' ${url}/`
  return kind === 'query' ? `'${url}/?${name}=${user}'` : `${url}/`
}
