/** How many checks in a row change the verdict. */
export interface HealthThresholds {
  /** Passed checks after which an unhealthy upstream is healthy again. Default 2. */
  readonly healthyThreshold: number
  /** Failed checks after which a healthy upstream is unhealthy. Default 3. */
  readonly unhealthyThreshold: number
}

/** The verdict on one upstream. Healthy until proven otherwise: a check only takes away. */
export class HealthRecord {
  readonly #thresholds: HealthThresholds
  #healthy = true
  /** Checks in a row that contradict the verdict. */
  #contradictions = 0

  constructor(thresholds: HealthThresholds) {
    this.#thresholds = thresholds
  }

  get healthy(): boolean {
    return this.#healthy
  }

  /** Takes in a check's result and returns whether the verdict changed. */
  record(passed: boolean): boolean {
    this.#contradictions = passed === this.#healthy ? 0 : this.#contradictions + 1
    const { healthyThreshold, unhealthyThreshold } = this.#thresholds
    if (this.#contradictions < (this.#healthy ? unhealthyThreshold : healthyThreshold)) return false
    this.#healthy = passed
    this.#contradictions = 0
    return true
  }
}
