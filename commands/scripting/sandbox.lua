-- The world that scripts see, on stock Lua 5.1 as lupa bundles it. Redis makes tables read-only in C; here scripts get
-- empty tables in front of the real ones. Whatever can catch an error is wrapped: an error that Python raised arrives as
-- the exception itself, and no script may get hold of that; and one that has run out of time may not go on.
local host = ...
local raw_pcall, raw_xpcall, raw_pairs, raw_rawset = pcall, xpcall, pairs, rawset
local raw_getmetatable, raw_setmetatable, raw_loadstring, raw_collectgarbage = getmetatable, setmetatable, loadstring,
    collectgarbage
local rawget, type, tostring, error, next, setfenv, unpack = rawget, type, tostring, error, next, setfenv, unpack
local getinfo, sethook = debug.getinfo, debug.sethook
local concat, byte, match = table.concat, string.byte, string.match
local create, resume = coroutine.create, coroutine.resume
local as_function = python.as_function

local OVERDUE_CHECK_INSTRUCTIONS = 10000
local READONLY = "Attempt to modify a readonly table"

local fronts = {} -- front -> the table behind it
local exposed = {} -- fronts in which nothing may stay behind after a script

local function front(real)
    local made = raw_setmetatable({}, { __index = real, __newindex = function() error(READONLY, 2) end })
    fronts[made], exposed[#exposed + 1] = real, made
    return made
end

-- Errors ----------------------------------------------------------------------------------------

local describe, is_overdue = as_function(host.describe), as_function(host.is_overdue)
local overdue_text -- set while a script that has run out of time is brought down

local function as_seen(problem) -- an exception of ours as the table that Redis raises
    if type(problem) == "userdata" then
        return { err = describe(problem), ignore_error_stats_update = true }
    end
    return problem
end

local function watch()
    overdue_text = overdue_text or is_overdue()
    if overdue_text then
        error({ err = overdue_text }, 0)
    end
end

local function caught(...) -- what a call under protection gave; there is no going on after the time
    if overdue_text then
        error({ err = overdue_text }, 0)
    end
    return ...
end

local function handle(problem) -- of a whole script: where it happened, as a new table
    local level, info = 2, getinfo(2, "Sl")
    while info and (info.what == "C" or info.what == "tail" or info.source == "=sandbox") do
        level = level + 1
        info = getinfo(level, "Sl")
    end
    problem = as_seen(problem)
    local told = {}
    if type(problem) == "table" then
        local text = rawget(problem, "err")
        if type(text) == "string" or type(text) == "number" then
            told.err = text
        end
        told.is_counted = rawget(problem, "ignore_error_stats_update") and true or false
    else
        told.err = "ERR " .. tostring(problem)
    end
    if info then
        told.source, told.line = info.source, info.currentline
    end
    return told
end

local function after_pcall(ok, problem, ...)
    if ok then
        return ok, problem, ...
    end
    problem = as_seen(problem)
    local text = type(problem) == "table" and rawget(problem, "err")
    if type(text) == "string" or type(text) == "number" then
        problem = text
    end
    return false, problem
end

local function after_resume(ok, problem, ...)
    if ok then
        return ok, problem, ...
    end
    return false, as_seen(problem)
end

-- The functions of Lua --------------------------------------------------------------------------

local seen = {
    _VERSION = _VERSION, assert = assert, error = error, gcinfo = gcinfo, ipairs = ipairs, next = next,
    rawequal = rawequal, rawget = rawget, select = select, tonumber = tonumber, tostring = tostring, type = type,
    unpack = unpack,
}

local globals -- the front of `seen`, the environment of every script

local function require_table(name, value) -- in the words of Lua itself, at the place of the script
    if type(value) ~= "table" then
        error("bad argument #1 to '" .. name .. "' (table expected, got " .. type(value) .. ")", 3)
    end
end

function seen.pcall(...)
    return caught(after_pcall(raw_pcall(...)))
end

function seen.xpcall(action, handler)
    return caught(raw_xpcall(action, function(problem) return handler(as_seen(problem)) end))
end

function seen.pairs(values)
    require_table("pairs", values)
    local real = fronts[values]
    if not real then
        return raw_pairs(values)
    end
    local copy = {}
    for key, value in raw_pairs(real) do
        copy[key] = value
    end
    return next, copy
end

function seen.rawset(values, key, value)
    require_table("rawset", values)
    if fronts[values] then
        error({ err = "ERR " .. READONLY }, 0)
    end
    return raw_rawset(values, key, value)
end

function seen.setmetatable(values, metatable)
    require_table("setmetatable", values)
    if fronts[values] then
        error({ err = "ERR " .. READONLY }, 0)
    end
    return raw_setmetatable(values, metatable)
end

local metatables = {} -- what scripts get to see as such

function seen.getmetatable(value)
    local kind = type(value)
    if kind == "userdata" or kind == "function" then
        return nil
    end
    if kind == "string" then
        return metatables.string
    end
    if fronts[value] then
        return value == globals and metatables.globals or nil
    end
    return raw_getmetatable(value)
end

-- The only way from text to a function of a script. Lua takes a text that begins with byte 27 for bytecode, which it
-- trusts: after a space it is text that no parser accepts. The parser makes a string of `name` up to a zero byte and
-- holds no reference to it: `anchor` does, so that the collector leaves it alone.
local function compile(text, name)
    if byte(text) == 27 then
        text = " " .. text
    end
    local anchor = match(name, "^%Z*")
    local action, problem = raw_loadstring(text, anchor)
    if not action then
        return nil, problem
    end
    return setfenv(action, globals)
end

function seen.loadstring(text, name)
    if type(text) ~= "string" then
        error("bad argument #1 to 'loadstring' (string expected, got " .. type(text) .. ")", 2)
    end
    return compile(text, name or text)
end

function seen.load(reader, name)
    local pieces = {}
    while true do
        local ok, piece = caught(after_pcall(raw_pcall(reader)))
        if not ok then
            return nil, piece
        end
        if piece == nil or piece == "" then
            break
        end
        if type(piece) ~= "string" then
            return nil, "reader function must return a string"
        end
        pieces[#pieces + 1] = piece
    end
    return seen.loadstring(concat(pieces), name or "=(load)")
end

function seen.collectgarbage(option) -- one collector for all scripts: none may stop it
    if option == nil or option == "collect" or option == "count" or option == "step" then
        return raw_collectgarbage(option)
    end
    return 0
end

local function new_coroutine(name, action)
    if type(action) ~= "function" or getinfo(action, "S").what == "C" then
        error("bad argument #1 to '" .. name .. "' (Lua function expected)", 3)
    end
    local made = create(action)
    sethook(made, watch, "", OVERDUE_CHECK_INSTRUCTIONS)
    return made
end

local function after_wrapped(ok, ...)
    if ok then
        return ...
    end
    error((...), 3)
end

local libraries = {
    cjson = raw_loadstring(host.cjson, "=sandbox")(newproxy()),
    string = string, table = table, math = math, os = { clock = os.clock }, bit = {} }

libraries.coroutine = {
    create = function(action) -- no tail call: the error names the line of the script
        local made = new_coroutine("create", action)
        return made
    end,
    resume = function(...) return caught(after_resume(resume(...))) end,
    running = coroutine.running,
    status = coroutine.status,
    wrap = function(action)
        local made = new_coroutine("wrap", action)
        return function(...) return caught(after_wrapped(resume(made, ...))) end
    end,
    yield = coroutine.yield,
}

-- redis.* ---------------------------------------------------------------------------------------

local redis = {
    LOG_DEBUG = 0, LOG_VERBOSE = 1, LOG_NOTICE = 2, LOG_WARNING = 3,
    REPL_NONE = 0, REPL_AOF = 1, REPL_SLAVE = 2, REPL_REPLICA = 2, REPL_ALL = 3,
    REDIS_VERSION = host.version, REDIS_VERSION_NUM = host.version_number,
    breakpoint = function() return false end,
    debug = function() end,
    replicate_commands = function() return true end,
}

libraries.redis = redis

for library, functions in raw_pairs(host.functions) do -- functions of Python that look like functions of C
    for name, action in raw_pairs(functions) do
        libraries[library][name] = as_function(action)
    end
end

local function single(field)
    return function(...)
        local text = ...
        if select("#", ...) ~= 1 or type(text) ~= "string" then
            return { err = "ERR wrong number or type of arguments" }
        end
        return { [field] = text }
    end
end

redis.status_reply = single("ok")
local error_table = single("err")

function redis.error_reply(...)
    local made = error_table(...)
    local text = made.err:match("^%-?(.-)[\r\n]*$")
    if not text:find(" ", 1, true) then
        text = "ERR " .. text
    end
    return { err = text }
end

-- The border ------------------------------------------------------------------------------------

for name, library in raw_pairs(libraries) do
    seen[name] = front(library)
end
metatables.string = front({ __index = seen.string })
raw_setmetatable(seen, {
    __index = function(_, name)
        error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
    end,
})
globals = front(seen)
seen._G = globals
metatables.globals = front({})
raw_getmetatable("").__index = seen.string

local border = {}

local NOTHING = {} -- stands for what no reply can hold: only plain values and tables cross the border

local function plain(value)
    local kind = type(value)
    if kind == "string" or kind == "number" or kind == "boolean" or kind == "table" then
        return value
    end
    return NOTHING
end

function border.run(action) -- whether it went well, and what came of it
    local ok, value = raw_xpcall(action, handle)
    sethook()
    return ok, plain(value)
end

function border.compile(text)
    return compile(text, "@user_script")
end

function border.prepare(keys, arguments)
    seen.KEYS, seen.ARGV = keys, arguments
    sethook(watch, "", OVERDUE_CHECK_INSTRUCTIONS)
end

function border.finish() -- nothing of one script is left for the next; how many KiB Lua holds
    sethook()
    overdue_text, seen.KEYS, seen.ARGV = nil, nil, nil
    for index = 1, #exposed do
        local made = exposed[index]
        for key in raw_pairs(made) do
            raw_rawset(made, key, nil)
        end
    end
    return gcinfo()
end

local function text_field(values, name)
    local value = rawget(values, name)
    return type(value) == "string" and value or nil
end

function border.kind(values) -- what a returned table stands for: a word, and its content
    if values == NOTHING then
        return "nothing", false
    end
    local value = rawget(values, "err")
    if type(value) == "string" then
        return "err", value, rawget(values, "ignore_error_stats_update") and true or false
    end
    value = rawget(values, "ok")
    if type(value) == "string" then
        return "ok", value
    end
    value = rawget(values, "double")
    if type(value) == "number" then
        return "double", value
    end
    value = rawget(values, "map")
    if type(value) == "table" then
        return "map", value
    end
    value = rawget(values, "set")
    if type(value) == "table" then
        return "set", value
    end
    value = text_field(values, "big_number")
    if value then
        return "big_number", value
    end
    value = rawget(values, "verbatim_string")
    if type(value) == "table" and text_field(value, "format") and text_field(value, "string") then
        return "verbatim", value.format, value.string
    end
    local count = 0
    while rawget(values, count + 1) ~= nil do
        count = count + 1
    end
    return "array", count
end

function border.items(values, count) -- of an array
    local items = {}
    for index = 1, count do
        items[index] = plain(rawget(values, index))
    end
    return items
end

function border.pairs(values) -- keys and values in turn
    local items, count = {}, 0
    for key, value in next, values do
        items[count + 1], items[count + 2] = plain(key), plain(value)
        count = count + 2
    end
    return items
end

return border
