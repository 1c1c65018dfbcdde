-- What a router decided about a workflow while Redis was away. The later word wins, by seq, so
-- that several routers may tell their part in any order.
--
-- KEYS[1]  the workflow's hash
-- ARGV[1]  JSON: prefix, workflow (engine-side id), agent, pins {model: replica}, replica, epoch,
--          state, step, seq (text), created_at, last_seen, agents, idle_ms
-- returns  1 when this word won
local told = cjson.decode(ARGV[1])
local key = KEYS[1]
local was = redis.call('HMGET', key, 'seq', 'epoch', 'step', 'agents')
if was[1] and tonumber(was[1]) >= tonumber(told.seq) then return 0 end
local agents = was[4] and cjson.decode(was[4]) or {}
local seen = {}
for _, agent in ipairs(agents) do seen[agent] = true end
for _, agent in ipairs(told.agents) do
  if not seen[agent] and #agents < 64 then agents[#agents + 1] = agent end
end
redis.call('HSET', key, 'replica', told.replica, 'state', told.state, 'seq', told.seq,
  'epoch', math.max(tonumber(was[2]) or 0, told.epoch),
  'step', math.max(tonumber(was[3]) or 0, told.step),
  'agent', told.agent, 'last_seen', told.last_seen,
  'agents', #agents > 0 and cjson.encode(agents) or '[]')
if not was[1] then
  redis.call('HSET', key, 'created_at', told.created_at,
    'prompt_tokens', 0, 'cached_tokens', 0, 'completion_tokens', 0)
end
redis.call('PEXPIRE', key, told.idle_ms)
local forgotten_at = string.format('%.3f', tonumber(told.last_seen) + told.idle_ms / 1000)
for model, replica in pairs(told.pins) do
  local field = 'replica:' .. model
  local old = redis.call('HGET', key, field)
  if old and old ~= replica then
    redis.call('ZREM', told.prefix .. 'pins:' .. old, told.workflow)
  end
  redis.call('HSET', key, field, replica)
  local pins = told.prefix .. 'pins:' .. replica
  if told.state == 'active' then
    redis.call('ZADD', pins, forgotten_at, told.workflow)
    redis.call('PEXPIRE', pins, 2 * told.idle_ms)
  else
    redis.call('ZREM', pins, told.workflow)
  end
end
return 1
