-- The world that scripts see, on stock Lua 5.1 as lupa bundles it. Redis makes tables read-only in C; here scripts get
-- empty tables in front of the real ones. Whatever can catch an error is wrapped: an error that Python raised arrives as
-- the exception itself, and no script may get hold of that; and one that has run out of time may not go on.
--
-- While a script runs, Lua may allocate so much memory and no more (`limit_memory`). Python must not run then: an
-- allocation of its own that fails would jump over it. So the limit is lifted around each call of Python that allocates.
local host = ...
local raw_pcall, raw_xpcall, raw_pairs, raw_rawset, raw_unpack = pcall, xpcall, pairs, rawset, unpack
local raw_getmetatable, raw_setmetatable, raw_loadstring, raw_collectgarbage = getmetatable, setmetatable, loadstring,
    collectgarbage
local rawget, type, tostring, error, next, setfenv, select = rawget, type, tostring, error, next, setfenv, select
local getinfo, sethook = debug.getinfo, debug.sethook
local concat, byte, match = table.concat, string.byte, string.match
local create, resume = coroutine.create, coroutine.resume
local as_function = python.as_function

local OVERDUE_CHECK_INSTRUCTIONS = 1000
local LARGE_MEMORY_KIB = 8192 -- beyond it one instruction may take long: the time is looked at more often
local LARGE_CHECK_INSTRUCTIONS = 200
local HUGE_MEMORY_KIB = 65536
local HUGE_CHECK_INSTRUCTIONS = 20
local OUT_OF_MEMORY = "not enough memory"
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
local limit_memory, lift_memory = as_function(host.limit_memory), as_function(host.lift_memory)
local overdue_texts -- why a script is ended, by what `is_overdue` returns
local overdue_text -- set while a script that has run out of time is brought down
local running -- the function of the script
local null = newproxy() -- that of JSON: the one userdata that scripts may have

local border = {}

local function watch()
    if not overdue_text then
        overdue_text = overdue_texts[is_overdue()]
    end
    if overdue_text and getinfo(2, "f").func ~= border.run then -- what ends the script is not ended itself
        error({ err = overdue_text }, 0)
    end
    local size_kib = gcinfo()
    if size_kib > HUGE_MEMORY_KIB then
        sethook(watch, "", HUGE_CHECK_INSTRUCTIONS)
    elseif size_kib > LARGE_MEMORY_KIB then
        sethook(watch, "", LARGE_CHECK_INSTRUCTIONS)
    end
end

local function as_seen(problem) -- an exception of ours as the table that Redis raises
    if type(problem) == "userdata" and problem ~= null then
        overdue_text = overdue_text or overdue_texts[is_overdue()]
        lift_memory()
        problem = { err = describe(problem), ignore_error_stats_update = true }
        limit_memory()
    end
    return problem
end

-- A problem that a script may catch. Where the stack of C is used up, a hook raises an error and does not run: the time
-- is looked at here too.
local function catchable(problem)
    problem = as_seen(problem)
    watch()
    return problem
end

-- The first function of a script on the stack from `level` on. What a tail call has taken off the stack is gone: then it
-- is the next one, or the last line of the script. With `is_strict` nothing is found where C is the caller.
local function script_level(level, is_strict)
    local wrapper, is_tail, is_lost
    while true do
        level = level + 1
        local info = getinfo(level, "nSl")
        if not info then
            break
        elseif info.source == "=sandbox" then
            wrapper, is_tail = is_lost and wrapper or info, false
        elseif info.what == "tail" then
            is_tail = true
        elseif info.what ~= "C" then
            return info, wrapper, is_tail or is_lost
        elseif is_tail then
            is_lost = true
        elseif is_strict and not is_lost then
            return nil, wrapper, false
        end
    end
    if not is_tail and not is_lost then
        return nil, wrapper, false
    end
    local info = getinfo(running, "SL")
    info.currentline = 0
    for line in raw_pairs(info.activelines) do
        info.currentline = line > info.currentline and line or info.currentline
    end
    return info, wrapper, true
end

local function fail(text) -- an error of a function of the sandbox, as C would raise it where a script called it
    local info = script_level(1, true)
    error((info and info.short_src .. ":" .. info.currentline .. ": " or "") .. text, 0)
end

local function bad_argument(name, index, text)
    local _, wrapper, is_tail = script_level(1, true)
    if not is_tail then
        name = wrapper and wrapper.name or "?"
    end
    if not is_tail and wrapper and wrapper.namewhat == "method" then
        index = index - 1
        if index == 0 then
            fail("calling '" .. name .. "' on bad self (" .. text .. ")")
        end
    end
    fail("bad argument #" .. index .. " to '" .. name .. "' (" .. text .. ")")
end

local function caught(...) -- what a call under protection gave; there is no going on after the time
    if overdue_text then
        error({ err = overdue_text }, 0)
    end
    return ...
end

local function handle(problem) -- of a whole script: where it happened, as a new table
    local info = script_level(1, false)
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
    problem = catchable(problem)
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
    return false, catchable(problem)
end

-- The functions of Lua --------------------------------------------------------------------------

local seen = {
    _VERSION = _VERSION, assert = assert, error = error, gcinfo = gcinfo, ipairs = ipairs, next = next,
    rawequal = rawequal, rawget = rawget, select = select, tonumber = tonumber, tostring = tostring, type = type,
}

local globals -- the front of `seen`, the environment of every script

local function require_table(name, value)
    if type(value) ~= "table" then
        bad_argument(name, 1, "table expected, got " .. type(value))
    end
end

function seen.pcall(...)
    return caught(after_pcall(raw_pcall(...)))
end

local function after_xpcall(handler, ok, ...)
    if ok then
        return ok, ...
    end
    local handled, value = raw_pcall(handler, catchable((...)))
    if not handled then
        catchable(value)
        value = "error in error handling"
    end
    return false, value
end

function seen.xpcall(...) -- the handler runs after the error, for Lua watches no time while it raises one
    if select("#", ...) < 2 then
        bad_argument("xpcall", 2, "value expected")
    end
    local action, handler = ...
    return caught(after_xpcall(handler, raw_pcall(action)))
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
        bad_argument("loadstring", 1, "string expected, got " .. type(text))
    end
    return compile(text, name or text)
end

function seen.load(reader, name)
    if type(reader) ~= "function" then
        bad_argument("load", 1, "function expected, got " .. type(reader))
    end
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
    local info = type(action) == "function" and getinfo(action, "S")
    if not info or info.what == "C" or info.source == "=sandbox" then
        bad_argument(name, 1, "Lua function expected")
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

local function part(name, ...) -- what a file beside this one returns
    return raw_loadstring(host.parts[name], "=sandbox")(...)
end

local tools = {
    fail = fail, bad_argument = bad_argument, watch = watch, patterns = part("patterns", fail),
    memory_size_max = host.memory_size_max,
}
local library = part("library", tools)
tools.as_int = library.as_int
seen.unpack = library.unpack

local libraries = {
    cjson = part("cjson", null, tools), cmsgpack = part("cmsgpack", tools),
    string = library.string, table = library.table, math = math, os = { clock = os.clock }, bit = {} }

libraries.coroutine = {
    create = function(action)
        local made = new_coroutine("create", action)
        return made
    end,
    resume = function(...)
        if type((...)) ~= "thread" then
            bad_argument("resume", 1, "coroutine expected")
        end
        return caught(after_resume(resume(...)))
    end,
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

local function returned(...)
    limit_memory()
    return ...
end

-- A function of Python. It gets strings and numbers, whose size it is given beforehand; anything else is false to it.
local function hosted(action)
    return function(...)
        local words, count, size, is_changed = { ... }, select("#", ...), 0, false
        for index = 1, count do
            local word = words[index]
            local kind = type(word)
            if kind == "string" then
                size = size + #word
            elseif kind ~= "number" and kind ~= "nil" then
                words[index], is_changed = false, true
            end
        end
        if size > host.memory_size_max then
            error(OUT_OF_MEMORY, 0)
        end
        lift_memory()
        if is_changed then
            return returned(action(raw_unpack(words, 1, count)))
        end
        return returned(action(...))
    end
end

for name, functions in raw_pairs(host.functions) do
    for field, action in raw_pairs(functions) do
        libraries[name][field] = hosted(as_function(action))
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

-- One step of the collector is a whole collection, at twice the memory that the last one left: a script that makes large
-- strings gets no further ahead of it.
raw_collectgarbage("setstepmul", 0)

local NOTHING = {} -- stands for what no reply can hold: only plain values and tables cross the border

local function plain(value)
    local kind = type(value)
    if kind == "string" or kind == "number" or kind == "boolean" or kind == "table" then
        return value
    end
    return NOTHING
end

function border.run(action) -- whether it went well, and what came of it
    running = action
    sethook(watch, "", OVERDUE_CHECK_INSTRUCTIONS)
    limit_memory()
    local ok, value = raw_xpcall(action, handle)
    sethook()
    lift_memory()
    if ok and overdue_text then
        ok, value = false, { err = overdue_text }
    end
    return ok, plain(value)
end

function border.compile(text)
    limit_memory()
    local ok, action, problem = raw_pcall(compile, text, "@user_script")
    lift_memory()
    if ok and action then
        return action
    end
    return nil, problem or action
end

function border.prepare(keys, arguments, texts)
    seen.KEYS, seen.ARGV, overdue_texts = keys, arguments, texts
end

function border.finish() -- nothing of one script is left for the next; how many KiB Lua holds
    overdue_text, running, seen.KEYS, seen.ARGV = nil, nil, nil, nil
    for index = 1, #exposed do
        local made = exposed[index]
        for key in raw_pairs(made) do
            raw_rawset(made, key, nil)
        end
    end
    if gcinfo() > LARGE_MEMORY_KIB then
        raw_collectgarbage()
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
