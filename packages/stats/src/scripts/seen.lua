-- seen.lua - reads what is known of some fingerprints.
--
-- KEYS[n]  hashes        hash    fingerprint to `error first last sample`, by window
-- ARGV[n]  fingerprints  string  which
--
-- Reply     for each key an array with the value of each fingerprint, empty where there is none
local hashes = KEYS
local fingerprints = ARGV

local found = {}
for index, key in ipairs(hashes) do
  local values = {}
  for place, fingerprint in ipairs(fingerprints) do
    values[place] = redis.call('HGET', key, fingerprint) or ''
  end
  found[index] = values
end
return found
