// What a user's CommonJS program does, run by scripts/check-package.mjs against the packed library.

import assert = require('node:assert/strict')
import library = require('consistent-hash-proxy')

const ring: library.HashRing = new library.HashRing(['a', 'b', 'c'].map((id) => ({ id, weight: 1 })))
assert.equal(
  ['1', '2', '3', '4', '5', '6', '7', '8'].map((key) => ring.owner(`user-${key}`)).join(''),
  'abbcaaac',
)

assert.throws(
  () => library.consistentHashProxy({ key: 'header:x-user-id', topology: library.staticTopology([]) }),
  library.OptionsError,
)

// What is not used is not loaded. And nothing here keeps the process alive: it ends by itself.
assert.deepEqual(
  Object.keys(require.cache).filter((path) => /node_modules\/(@grpc|etcd3|express)\//.test(path)),
  [],
)
