-- The end of a workflow: retired state and a terminate event at every replica it is pinned to.
-- Nothing happens when it has ended already, or when a call was issued after the ending one.
--
-- KEYS[1]  the workflow's hash
-- ARGV[1]  JSON: prefix, workflow (engine-side id), agent, idle_ms, max_events, call_seq (of the
--          ending call, 0 for an explicit end), floor_seq, known (replica ids of a router's memory)
-- returns  the terminate's seq as text, '' when nothing happened
local call = cjson.decode(ARGV[1])
local key = KEYS[1]
local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local now = string.format('%.6f', now_us / 1000000)

local fields = redis.call('HGETALL', key)
local was, replicas = {}, {}
for i = 1, #fields, 2 do
  was[fields[i]] = fields[i + 1]
  if string.sub(fields[i], 1, 8) == 'replica:' then replicas[fields[i + 1]] = true end
end
local last = tonumber(was.seq) or 0
if was.state == 'retired' then return '' end
if call.call_seq > 0 and last > call.call_seq then return '' end
if not was.seq then
  for _, id in ipairs(call.known) do replicas[id] = true end
  if not next(replicas) then return '' end
end

local seq_text = string.format('%.0f', math.max(last + 1, now_us, call.floor_seq + 1))
if was.seq then
  redis.call('HSET', key, 'state', 'retired', 'seq', seq_text, 'last_seen', now)
  redis.call('PEXPIRE', key, call.idle_ms)
end
for id in pairs(replicas) do
  local stream = call.prefix .. 'events:' .. id
  redis.call('XADD', stream, 'MAXLEN', '~', call.max_events, '*', 'kind', 'terminate',
    'workflow', call.workflow, 'agent', call.agent, 'at', now, 'seq', seq_text)
  redis.call('PEXPIRE', stream, 2 * call.idle_ms)
  redis.call('ZREM', call.prefix .. 'pins:' .. id, call.workflow)
end
return seq_text
