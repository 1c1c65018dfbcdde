-- Tokens of one finished answer. A workflow that was forgotten meanwhile stays forgotten.
--
-- KEYS[1]  the workflow's hash
-- ARGV     prompt, cached and completion tokens, idle time-out in ms, prefix, engine-side id
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
redis.call('HINCRBY', KEYS[1], 'prompt_tokens', ARGV[1])
redis.call('HINCRBY', KEYS[1], 'cached_tokens', ARGV[2])
redis.call('HINCRBY', KEYS[1], 'completion_tokens', ARGV[3])
local was = redis.call('HMGET', KEYS[1], 'state', 'replica')
if was[1] == 'active' then
  -- Silence counts from the end of the answer, not from its beginning.
  redis.call('HSET', KEYS[1], 'last_seen', string.format('%.6f', now_us / 1000000))
  redis.call('PEXPIRE', KEYS[1], ARGV[4])
  redis.call('ZADD', ARGV[5] .. 'pins:' .. was[2], 'XX',
    string.format('%.3f', now_us / 1000000 + ARGV[4] / 1000), ARGV[6])
end
return 1
