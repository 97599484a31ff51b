/**
 * The part of a key that places it: what stands between the first `{` and the first `}` after it, when that is
 * not empty; else the whole key. Keys that share a tag share an owner. The rule of Redis Cluster
 * (redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec, "Hash tags").
 */
export function hashTag(key: string): string {
  const open = key.indexOf('{')
  if (open < 0) return key
  const close = key.indexOf('}', open + 1)
  return close > open + 1 ? key.slice(open + 1, close) : key
}
