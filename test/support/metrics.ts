import type { ConsistentHashProxy } from '../../src/index.ts'

export interface Series {
  readonly name: string
  readonly labels: Readonly<Record<string, string | number>>
  readonly value: number
}

/** Every series of a proxy at this moment, without the common prefix; a histogram's by their own names. */
export async function seriesOf(
  proxy: ConsistentHashProxy,
  prefix = 'consistent_hash_proxy_',
): Promise<Series[]> {
  await new Promise(setImmediate) // one scrape, one moment: gauges read in one tick are read once
  const metrics = (await proxy.metrics?.getMetricsAsJSON()) ?? []
  return metrics.flatMap((metric) =>
    metric.values.map(({ labels, value, ...own }) => ({
      name: ('metricName' in own ? String(own.metricName) : metric.name).replace(prefix, ''),
      labels: labels as Series['labels'],
      value,
    })),
  )
}

/** The sum of a metric's series that carry these labels; undefined when there are none. */
export async function metricOf(
  proxy: ConsistentHashProxy,
  name: string,
  labels: Readonly<Record<string, string>> = {},
): Promise<number | undefined> {
  const found = (await seriesOf(proxy)).filter(
    (series) =>
      series.name === name &&
      Object.entries(labels).every(([label, value]) => series.labels[label] === value),
  )
  return found.length === 0 ? undefined : found.reduce((sum, { value }) => sum + value, 0)
}
