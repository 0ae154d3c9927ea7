-- Builds the environment of scripts, as Redis 7 builds it.
--
-- Argument  native: functions of the store. All functions of redis that can fail
--           are native, because error messages name the script's line: Lua forgets
--           it when a script ends with a call of a Lua function (a tail call).
-- Returns   globals      the table that scripts see as _G; read-only
--           run(script, keys, argv)  runs a compiled script. Returns FAILED, the
--                        error's text and the script's line (or nil), or VALUE
--                        or LIST and the result; a LIST is a table without any
--                        of the fields that have a meaning in replies
--           clear_arguments()  drops the last run's keys and argv
--
-- The libraries are Lua's own, as in Redis. With limits, a hook ends a script that
-- runs for too long, but not inside one call of a C function. Clients that are not
-- trusted with such calls may not send scripts of their own; see `Limits::scripts`.
--
-- Redis marks tables read-only in its patched Lua. Stock Lua cannot, so scripts
-- see an empty shadow of each such table. Reads are forwarded to the real table,
-- writes are refused, and functions that could see the difference are adapted.

local native = ...

local error, getmetatable, ipairs, next, pairs, pcall, xpcall = error, getmetatable, ipairs, next, pairs, pcall, xpcall
local rawget, rawset, setmetatable, tostring, type = rawget, rawset, setmetatable, tostring, type
local resume, insert, unpack = coroutine.resume, table.insert, unpack

local READ_ONLY = 'Attempt to modify a readonly table'

-- Maps each shadow to its real table.
local real_of = {}

local function refuse_write()
  error(READ_ONLY, 2)
end

local function shadow(real)
  local proxy = setmetatable({}, { __index = real, __newindex = refuse_write, __metatable = false })
  real_of[proxy] = real
  return proxy
end

-- Errors of the store's own functions are userdata. Scripts see tables or texts instead, as in Redis 7.
local function visible(problem)
  if type(problem) ~= 'userdata' then
    return problem
  end
  local text, is_table = native.describe(problem)
  if is_table then
    return { err = text }
  end
  return text
end

local function after_pcall(ok, ...)
  if ok then
    return true, ...
  end
  local problem = visible((...))
  if type(problem) == 'table' and (type(problem.err) == 'string' or type(problem.err) == 'number') then
    return false, problem.err
  end
  return false, problem
end

local function after_resume(ok, ...)
  if ok then
    return true, ...
  end
  return false, visible((...))
end

local globals = {}

for _, name in ipairs({
  '_VERSION', 'assert', 'error', 'ipairs', 'rawequal', 'select', 'tonumber', 'tostring', 'type',
}) do
  globals[name] = _G[name]
end

-- CVE-2025-46817: Lua 5.1 computes the number of results in an int, which can overflow.
local MOST_UNPACKED = 7000

function globals.unpack(list, first, last)
  local from, to = tonumber(first or 1), tonumber(last or type(list) == 'table' and #list or 0)
  if from and to and not (from > to or to - from < MOST_UNPACKED) then
    error('too many results to unpack', 2)
  end
  return unpack(list, first, last)
end

function globals.pcall(...)
  return after_pcall(pcall(...))
end

function globals.xpcall(body, handler)
  return xpcall(body, function(problem)
    -- No hook runs during the handling of the hook's own error, so a handler could run for ever.
    if native.is_exceeded() then
      return problem
    end
    return handler(visible(problem))
  end)
end

function globals.next(of, key)
  return next(real_of[of] or of, key)
end

function globals.pairs(of)
  local real = real_of[of]
  if real then
    -- The real table itself is not returned, because the script can access the loop's state.
    return function(_, key)
      return next(real, key)
    end, of, nil
  end
  return pairs(of)
end

function globals.rawget(of, key)
  return rawget(real_of[of] or of, key)
end

function globals.rawset(of, key, value)
  if real_of[of] then
    error(READ_ONLY, 0)
  end
  return rawset(of, key, value)
end

function globals.setmetatable(of, meta)
  if real_of[of] then
    error(READ_ONLY, 0)
  end
  return setmetatable(of, meta)
end

local globals_meta = shadow({})

function globals.getmetatable(of)
  if real_of[of] then
    return of == globals._G and globals_meta or nil
  end
  return getmetatable(of)
end

local function library(name, replaced)
  local copy = {}
  for key, value in pairs(_G[name]) do
    copy[key] = value
  end
  for key, value in pairs(replaced or {}) do
    copy[key] = value
  end
  globals[name] = shadow(copy)
end

library('string')
library('table', {
  insert = function(into, ...)
    if real_of[into] then
      error(READ_ONLY, 0)
    end
    return insert(into, ...)
  end,
})
library('coroutine', {
  resume = function(...)
    return after_resume(resume(...))
  end,
})
library('math', { random = native.random, randomseed = native.randomseed })

-- ("x"):rep(3) finds the string functions through the metatable of strings.
local string_meta = getmetatable('')
string_meta.__index = rawget(real_of, globals.string)
string_meta.__metatable = shadow({ __index = globals.string })

local function single_field(field)
  return function(...)
    local text = ...
    if select('#', ...) ~= 1 or type(text) ~= 'string' then
      return { err = 'ERR wrong number or type of arguments' }
    end
    if field == 'err' then
      text = text:gsub('^%-', '')
      if not text:find(' ', 1, true) then
        text = 'ERR ' .. text
      end
    end
    return { [field] = text }
  end
end

local function no_effect()
end

globals.redis = shadow({
  call = native.call,
  pcall = native.pcall,
  sha1hex = native.sha1hex,
  error_reply = single_field('err'),
  status_reply = single_field('ok'),
  log = native.log,
  setresp = native.setresp,
  set_repl = no_effect,
  replicate_commands = function()
    return true
  end,
  breakpoint = function()
    return false
  end,
  debug = no_effect,
  acl_check_cmd = function()
    return true
  end,
  LOG_DEBUG = 0,
  LOG_VERBOSE = 1,
  LOG_NOTICE = 2,
  LOG_WARNING = 3,
  REPL_NONE = 0,
  REPL_AOF = 1,
  REPL_SLAVE = 2,
  REPL_REPLICA = 2,
  REPL_ALL = 3,
  REDIS_VERSION = '7.0.15',
  REDIS_VERSION_NUM = 0x0007000f,
})

-- KEYS and ARGV exist from the start, so that a run replaces fields and adds none.
globals.KEYS, globals.ARGV = {}, {}

setmetatable(globals, {
  __index = function(_, name)
    error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
  end,
})
local visible_globals = shadow(globals)
rawset(globals, '_G', visible_globals)

-- Runs where the error happened, so that the script's line is still on the stack.
local function on_error(problem)
  problem = visible(problem)
  local text
  if type(problem) == 'table' then
    text = rawget(problem, 'err')
    if type(text) ~= 'string' then
      text = 'ERR unknown error'
    end
  else
    text = 'ERR ' .. tostring(problem)
  end
  return { text, native.line() }
end

-- The outcomes of a run. The engine uses the same numbers.
local FAILED, VALUE, LIST = 0, 1, 2

local function run(script, keys, argv)
  globals.KEYS, globals.ARGV = keys, argv
  local ok, result = xpcall(script, on_error)
  if ok then
    if type(result) == 'table' and rawget(result, 'err') == nil and rawget(result, 'ok') == nil
      and rawget(result, 'double') == nil and rawget(result, 'map') == nil and rawget(result, 'set') == nil then
      return LIST, result
    end
    return VALUE, result
  end
  if type(result) ~= 'table' then
    -- The handler itself failed because stack or memory was exhausted.
    return FAILED, 'ERR ' .. tostring(result)
  end
  return FAILED, result[1], result[2]
end

local function clear_arguments()
  globals.KEYS, globals.ARGV = {}, {}
end

return visible_globals, run, clear_arguments
