-- One call (or explicit start) of a workflow: its pin, step and seq, and the events that follow,
-- in one atomic step. The pin holds while its replica serves; else the first usable of
-- `known` (a router's memory, for a Redis that lost its data) and `candidates` takes over.
--
-- KEYS[1]  the workflow's hash
-- ARGV[1]  JSON: prefix, workflow (engine-side id), agent, model, calls (0 or 1), idle_ms,
--          max_events, candidates (ids, best first), known (id or ""), floor_seq, floor_step,
--          floor_epoch, created_at (or ""), down {id: true}, trusted {id: true}, metadata (or "")
-- returns  {} when no replica is usable, nothing is written then; else
--          {replica, url, state, model, epoch, step, seq, pinned now (0/1), reason of a move or ""}
local call = cjson.decode(ARGV[1])
local key = KEYS[1]
local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local now = string.format('%.6f', now_us / 1000000)
local pin_field = 'replica:' .. call.model

local function usable(id, may_drain)
  if id == '' or call.down[id] then return false end
  if call.trusted[id] then return true end
  local state = redis.call('HGET', call.prefix .. 'replica:' .. id, 'state')
  return state == 'ready' or (state == 'draining' and may_drain)
end

local was = redis.call('HMGET', key, pin_field, 'epoch', 'state', 'step', 'seq', 'agents')
local pinned = was[1] or ''
local replica, reason = '', ''
-- A draining replica keeps the workflows that are under way and no others.
if usable(pinned, was[3] == 'active') then
  replica = pinned
elseif pinned == '' and usable(call.known, true) then
  replica = call.known
else
  for _, id in ipairs(call.candidates) do
    if usable(id, false) then
      replica = id
      break
    end
  end
  if replica == '' and usable(pinned, true) then
    replica = pinned
  elseif pinned ~= '' then
    local gone = redis.call('EXISTS', call.prefix .. 'replica:' .. pinned) == 0
    reason = call.down[pinned] and 'replica_lost' or gone and 'replica_expired' or 'replica_closed'
  end
end
if replica == '' then return {} end

local epoch = math.max(tonumber(was[2]) or 0, call.floor_epoch)
local republished = pinned == '' and replica == call.known
if (replica ~= pinned and not republished) or epoch == 0 then epoch = epoch + 1 end
local step = math.max(tonumber(was[4]) or 0, call.floor_step) + call.calls
-- A hybrid logical clock: it follows Redis' clock, never stands still, and goes on from a
-- router's memory if Redis lost its data and its clock is behind.
local seq = math.max((tonumber(was[5]) or 0) + 1, now_us, call.floor_seq + 1)
local seq_text = string.format('%.0f', seq)

local agents = was[6] and cjson.decode(was[6]) or {}
if call.calls > 0 and #agents < 64 then
  local new = true
  for _, agent in ipairs(agents) do
    if agent == call.agent then new = false end
  end
  if new then agents[#agents + 1] = call.agent end
end

redis.call('HSET', key, 'replica', replica, pin_field, replica, 'epoch', epoch,
  'state', 'active', 'step', step, 'seq', seq_text, 'last_seen', now,
  'agents', #agents > 0 and cjson.encode(agents) or '[]')
if call.calls > 0 then redis.call('HSET', key, 'agent', call.agent) end
if call.metadata ~= '' then redis.call('HSET', key, 'metadata', call.metadata) end
if not was[5] then
  redis.call('HSET', key, 'created_at', call.created_at ~= '' and call.created_at or now,
    'prompt_tokens', 0, 'cached_tokens', 0, 'completion_tokens', 0)
end
redis.call('PEXPIRE', key, call.idle_ms)

local function publish(id, kind)
  local stream = call.prefix .. 'events:' .. id
  redis.call('XADD', stream, 'MAXLEN', '~', call.max_events, '*', 'kind', kind,
    'workflow', call.workflow, 'agent', call.agent, 'at', now, 'seq', seq_text)
  redis.call('PEXPIRE', stream, 2 * call.idle_ms)
end

-- Active workflows of a replica, by the time at which silence forgets them.
local pins = call.prefix .. 'pins:' .. replica
redis.call('ZREMRANGEBYSCORE', pins, '-inf', '(' .. now)
redis.call('ZADD', pins, string.format('%.3f', now_us / 1000000 + call.idle_ms / 1000),
  call.workflow)
redis.call('PEXPIRE', pins, 2 * call.idle_ms)
if pinned ~= '' and replica ~= pinned then
  -- The old replica may be out of reach only for this router: there the workflow is over.
  redis.call('ZREM', call.prefix .. 'pins:' .. pinned, call.workflow)
  publish(pinned, 'terminate')
end
if replica ~= pinned or was[3] ~= 'active' then publish(replica, 'start') end

local entry = redis.call('HMGET', call.prefix .. 'replica:' .. replica, 'url', 'state', 'model')
return { replica, entry[1] or '', entry[2] or '', entry[3] or '', epoch, step, seq_text,
  replica ~= pinned and 1 or 0, reason }
