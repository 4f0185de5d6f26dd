-- The environment of scripts, on the Lua 5.1 of lupa. Redis makes tables read-only in C; here scripts access an empty
-- front table for each real one. Functions that can catch errors are wrapped: a script must not get an exception object
-- of Python, and must not continue after its time limit.
--
-- While a script runs, the memory of Lua is limited. An allocation that fails must not skip frames of Python. So Python
-- allocates in Lua only while the limit is far away, or lifted (`lift`).
local host = ...
local raw_pcall, raw_xpcall, raw_pairs, raw_rawset, raw_unpack = pcall, xpcall, pairs, rawset, unpack
local raw_getmetatable, raw_setmetatable, raw_loadstring, raw_collectgarbage = getmetatable, setmetatable, loadstring,
    collectgarbage
local rawget, type, tostring, tonumber, error, next, setfenv, select = rawget, type, tostring, tonumber, error, next,
    setfenv, select
local getinfo, sethook, gcinfo = debug.getinfo, debug.sethook, gcinfo
local concat, byte, match = table.concat, string.byte, string.match
local create, resume = coroutine.create, coroutine.resume
local as_function = python.as_function

local OVERDUE_CHECK_INSTRUCTIONS = 1000
-- Memory from which on the time limit is checked more often, because one instruction can take long.
local LARGE_MEMORY_KIB = 8192
local LARGE_CHECK_INSTRUCTIONS = 200
local HUGE_MEMORY_KIB = 65536
local HUGE_CHECK_INSTRUCTIONS = 20
local OUT_OF_MEMORY = "not enough memory"
local READONLY = "Attempt to modify a readonly table"

-- Front: the table that it exposes. No function that scripts can call writes to a front, so that nothing of a script is
-- left for the next one.
local fronts = {}

local function front(real)
    local made = raw_setmetatable({}, { __index = real, __newindex = function() error(READONLY, 2) end })
    fronts[made] = real
    return made
end

-- Errors ----------------------------------------------------------------------------------------

local describe, is_overdue = as_function(host.describe), as_function(host.is_overdue)
local limit_memory, lift_memory = as_function(host.limit_memory), as_function(host.lift_memory)
local forget_grant = as_function(host.forget_grant)
-- The memory of Lua in KiB when the limit was set.
local granted_kib = 0
-- Whether the limit is lifted while a script runs.
local is_lifted = false
-- Up to this memory, Python may allocate in Lua without lifting the limit.
local roomy_kib
-- The reasons to end a script, by the result of `is_overdue`.
local overdue_texts
-- The reason, while a script over its time limit is being ended.
local overdue_text
-- The function of the running script.
local running
-- Calls it with the arguments of a function of a library.
local call_function
-- What Lua calls every so many instructions.
local watch
-- The null of JSON, the only userdata that scripts can access.
local null = newproxy()

local border = {}

-- Lifts the limit until the call of Python that is about to begin, or is running, returns.
local function lift()
    is_lifted = true
    lift_memory()
end

border.lift = lift

-- Returns the results of a call of Python.
local function returned(...)
    if is_lifted then
        is_lifted = false
        limit_memory()
    end
    return ...
end

-- Whether the limits are checked more often than usual.
local is_close = false

local function watch_closely(instructions)
    is_close = true
    sethook(watch, "", instructions)
end

-- Ends a script that is over a limit. Lua calls this all the time, also between scripts: to begin and to end that takes
-- as long as a short script.
function watch()
    if not running then
        return
    end
    if not overdue_text then
        overdue_text = overdue_texts[is_overdue()]
    end
    if overdue_text then
        local watched = getinfo(2, "f").func
        if watched ~= border.run and watched ~= border.load then -- the code that ends the script is exempt
            error({ err = overdue_text }, 0)
        end
    end
    local size_kib = gcinfo()
    if size_kib > HUGE_MEMORY_KIB then
        watch_closely(HUGE_CHECK_INSTRUCTIONS)
    elseif size_kib > LARGE_MEMORY_KIB then
        watch_closely(LARGE_CHECK_INSTRUCTIONS)
    end
end

-- Converts an exception from Python to the error table of Redis.
local function as_seen(problem)
    if type(problem) == "userdata" and problem ~= null then
        overdue_text = overdue_text or overdue_texts[is_overdue()]
        lift()
        local text, is_counted = returned(describe(problem))
        problem = { err = text, ignore_error_stats_update = is_counted or nil }
    end
    return problem
end

-- Returns an error that a script may catch. It checks the time limit, as no hook runs when the C stack is used up.
local function catchable(problem)
    problem = as_seen(problem)
    watch()
    return problem
end

-- Returns the first function of a script on the stack from `level` on. If a tail call removed that function, the result
-- is the next one, or the last line of the script or function. With `is_strict`, a caller in C gives no result.
local function script_level(level, is_strict)
    local wrapper, is_tail, is_lost
    while true do
        level = level + 1
        local info = getinfo(level, "nSlf")
        local is_border = info and info.func == call_function
        if not info then
            break
        elseif info.source == "=sandbox" and not is_border then
            wrapper, is_tail = is_lost and wrapper or info, false
        elseif info.what == "tail" then
            is_tail = true
        elseif info.what ~= "C" and not is_border then
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
        -- The line of the `end` of a function calls nothing, unless the whole function is in that line.
        if line > info.currentline and (line ~= info.lastlinedefined or line == info.linedefined) then
            info.currentline = line
        end
    end
    return info, wrapper, true
end

-- Raises an error of a sandbox function, with the place of the script's call, as C does.
local function fail(text)
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

-- Returns the results of a protected call; ends a script that is over its time limit.
local function caught(...)
    if overdue_text then
        error({ err = overdue_text }, 0)
    end
    return ...
end

-- The error handler of a script: returns a new table with the place of the error.
local function handle(problem)
    local info = script_level(1, false)
    problem = as_seen(problem)
    local failure = {}
    if type(problem) == "table" then
        local text = rawget(problem, "err")
        if type(text) == "string" or type(text) == "number" then
            failure.err = text
        end
        failure.is_counted = rawget(problem, "ignore_error_stats_update") and true or false
    else
        failure.err = "ERR " .. tostring(problem)
    end
    if info then
        failure.source, failure.line = info.source, info.currentline
    end
    return failure
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
    _VERSION = _VERSION, assert = assert, error = error, gcinfo = gcinfo, ipairs = ipairs,
    rawequal = rawequal, select = select, tonumber = tonumber, tostring = tostring, type = type,
}

-- The front of `seen`, which is the environment of all scripts.
local globals

local function require_table(name, value)
    if type(value) ~= "table" then
        bad_argument(name, 1, "table expected, got " .. type(value))
    end
end

function seen.next(...)
    local values, key = ...
    if select("#", ...) == 0 then
        bad_argument("next", 1, "table expected, got no value")
    end
    require_table("next", values)
    return next(fronts[values] or values, key)
end

function seen.rawget(...)
    local values, key = ...
    local count = select("#", ...)
    if count == 0 then
        bad_argument("rawget", 1, "table expected, got no value")
    end
    require_table("rawget", values)
    if count == 1 then
        bad_argument("rawget", 2, "value expected")
    end
    return rawget(fronts[values] or values, key)
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

-- The handler runs after the error, because Lua does not check the time limit while it raises one.
function seen.xpcall(...)
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
        error(READONLY, 0)
    end
    return raw_rawset(values, key, value)
end

function seen.setmetatable(values, metatable)
    require_table("setmetatable", values)
    if fronts[values] then
        error(READONLY, 0)
    end
    return raw_setmetatable(values, metatable)
end

-- The metatables that scripts can access.
local metatables = {}

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

-- Compiles a text; scripts have no other way to do so. Lua runs a text that begins with byte 27 as bytecode, unchecked;
-- a space before that byte makes it a syntax error. The parser makes a string of `name` up to a zero byte without a
-- reference to it; `anchor` keeps it from being collected.
local function compile(text, name)
    if #text > host.source_size_max then
        return nil, host.source_too_large
    end
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
    local kind = type(text)
    if kind == "number" then
        text = tostring(text)
    elseif kind ~= "string" then
        bad_argument("loadstring", 1, "string expected, got " .. kind)
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

-- All scripts share one collector, which they cannot stop.
function seen.collectgarbage(option)
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

-- Returns the result of another file of the sandbox.
local function part(name, ...)
    return raw_loadstring(host.parts[name], "=sandbox")(...)
end

local tools = {
    fail = fail, bad_argument = bad_argument, watch = watch, patterns = part("patterns", fail),
    memory_size_max = host.memory_size_max, fronts = fronts, readonly = READONLY,
}
local library = part("library", tools)
tools.as_int, tools.floats = library.as_int, part("floats")
seen.unpack = library.unpack

local libraries = {
    cjson = part("cjson", null, tools), cmsgpack = part("cmsgpack", tools), struct = part("struct", tools),
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
}

if not host.has_libraries then
    redis.breakpoint = function() return false end
    redis.debug = function() end
    redis.replicate_commands = function() return true end
end

libraries.redis = redis

-- Wraps a function of Python. It gets strings and numbers of limited total size; any other value becomes false. The
-- first `number_count` arguments are numbers: a string that is one is converted, as in C.
local function hosted(action, number_count)
    return function(...)
        local words, count, size, is_changed = { ... }, select("#", ...), 0, false
        for index = 1, count do
            local word = words[index]
            local kind = type(word)
            if kind == "string" and index <= number_count and tonumber(word) then
                words[index], is_changed = tonumber(word), true
            elseif kind == "string" then
                size = size + #word
            elseif kind ~= "number" and kind ~= "nil" then
                words[index], is_changed = false, true
            end
        end
        if size > host.memory_size_max then
            error(OUT_OF_MEMORY, 0)
        end
        if gcinfo() > roomy_kib then
            lift()
        end
        if is_changed then
            return returned(action(raw_unpack(words, 1, count)))
        end
        return returned(action(...))
    end
end

-- Up to this number of arguments, a call of a command passes them on as they are, if Lua has so little memory that they
-- cannot be too large together, and they are strings and numbers.
local QUICK_COUNT_MAX = 8
local PASSED = { string = true, number = true, ["nil"] = true }
local quick_kib = host.memory_size_max / 1024 / QUICK_COUNT_MAX

-- Makes the table of a reply that is a status.
local function replied(value, is_status)
    if is_status then
        return { ok = value }
    end
    return value
end

-- Wraps the function of Python that runs a command. The result is one value.
local function caller(action)
    local careful = hosted(action, 0)
    return function(...)
        local size_kib, count, a, b, c, d, e, f, g, h = gcinfo(), select("#", ...), ...
        if size_kib > quick_kib or size_kib > roomy_kib or count > QUICK_COUNT_MAX
            or not (PASSED[type(a)] and PASSED[type(b)] and PASSED[type(c)])
            or count > 3 and not (PASSED[type(d)] and PASSED[type(e)] and PASSED[type(f)] and PASSED[type(g)]
                and PASSED[type(h)]) then
            local value = replied(careful(...))
            return value
        end
        local value, is_status = action(...)
        if is_lifted then
            is_lifted = false
            limit_memory()
        end
        if is_status then
            return { ok = value }
        end
        return value
    end
end

-- The functions of `redis` that run commands.
local CALLERS = { call = true, pcall = true }

-- How many of the first arguments of a function of `redis` are numbers, if any.
local NUMBER_COUNTS = { log = 1, setresp = 1, set_repl = 1 }

-- How many arguments of a function of `bit` must be numbers. Of `tohex` the second one may be missing, and all arguments
-- of the functions that are not listed must be numbers.
local BIT_COUNTS = { tobit = 1, bnot = 1, bswap = 1, tohex = 2, lshift = 2, rshift = 2, arshift = 2, rol = 2, ror = 2 }

local function bit_function(name, action)
    local call = hosted(action, math.huge)
    return function(...)
        local words, count = { ... }, select("#", ...)
        local number_count = BIT_COUNTS[name] or count
        if name == "tohex" and count < 2 or number_count == 0 then
            number_count = 1
        end
        for index = 1, number_count do
            if not tonumber(words[index]) then
                local kind = index > count and "no value" or type(words[index])
                bad_argument(name, index, "number expected, got " .. kind)
            end
        end
        return call(...)
    end
end

for name, functions in raw_pairs(host.functions) do
    for field, action in raw_pairs(functions) do
        action = as_function(action)
        libraries[name][field] = name == "bit" and bit_function(field, action)
            or CALLERS[field] and caller(action) or hosted(action, NUMBER_COUNTS[field] or 0)
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
    -- Redis reads the text as a C string.
    local text = made.err:match("^%Z*"):match("^%-?(.-)[\r\n]*$")
    if not text:find(" ", 1, true) then
        text = "ERR " .. text
    end
    return { err = text }
end

-- The interface to Python -----------------------------------------------------------------------

for name, library in raw_pairs(libraries) do
    seen[name] = front(library)
end
metatables.string = front({ __index = seen.string })
local strict = {
    __index = function(_, name)
        error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
    end,
}
raw_setmetatable(seen, strict)
globals = front(seen)
seen._G = globals
metatables.globals = front({})
raw_getmetatable("").__index = seen.string

-- One step of the collector is a whole collection, which starts at twice the memory after the last one. A script that
-- makes large strings cannot allocate faster than it collects.
raw_collectgarbage("setstepmul", 0)

-- The types of values that a reply can have.
local PLAIN = { string = true, number = true, boolean = true, table = true }
-- Up to this number and total size in bytes, the elements of an array are handed out in one piece.
local FLAT_COUNT_MAX = 64
local FLAT_SIZE_MAX = 65536
-- Replaces values within a table that a reply cannot have.
local NOTHING = {}

local function plain(value)
    if PLAIN[type(value)] then
        return value
    end
    return NOTHING
end

local has_libraries = host.has_libraries
-- The arguments of the next function of a library.
local function_keys, function_arguments

-- Removes the state of the last script. The limit of the next one is computed anew if the memory of Lua has changed much.
local function finish()
    overdue_text, running, is_lifted = nil, nil, false
    if has_libraries then
        function_keys, function_arguments = nil, nil
    else
        seen.KEYS, seen.ARGV = nil, nil
    end
    local size_kib = gcinfo()
    if size_kib > LARGE_MEMORY_KIB then
        raw_collectgarbage()
        size_kib = gcinfo()
    end
    if is_close then
        is_close = false
        sethook(watch, "", OVERDUE_CHECK_INSTRUCTIONS)
    end
    local change_kib = size_kib - granted_kib
    if change_kib > host.limit_slack_kib or change_kib < -host.limit_slack_kib then
        forget_grant()
    end
end

border.finish = finish
border.size_kib = gcinfo

-- Notes the memory of Lua in KiB when the limit is set.
function border.set_granted(size_kib)
    granted_kib = size_kib
end

-- Sets KEYS and ARGV of the next script, or the arguments of the next function, as tables.
local function set_words(keys, arguments)
    if has_libraries then
        function_keys, function_arguments = keys, arguments
    else
        seen.KEYS, seen.ARGV = keys, arguments
    end
end

border.set_words = set_words

function call_function()
    local value = running(function_keys, function_arguments)
    return value
end

-- Runs the text of a library. Returns whether that succeeded, and the functions that it registered or an error; nil and
-- the problem if the text does not compile. Python has set the limit of memory.
if host.has_libraries then
    local registrar = part("registrar", tools)
    local loading_redis = { register_function = registrar.register_function }
    for name, value in raw_pairs(redis) do
        if name == "log" or match(name, "^LOG_") or match(name, "^REDIS_") then
            loading_redis[name] = value
        end
    end
    raw_setmetatable(loading_redis, strict)
    -- The globals while a library is loaded.
    local loading = raw_setmetatable({ redis = front(loading_redis) }, strict)
    local globals_index = raw_getmetatable(globals)

    function border.load(text)
        local compiled, action, problem = raw_pcall(compile, text, "@user_function")
        if not compiled or not action then
            finish()
            return nil, problem or action
        end
        registrar.begin()
        running, roomy_kib = action, gcinfo() + host.roomy_kib
        globals_index.__index = loading
        local ok, value = raw_xpcall(action, handle)
        running = nil
        globals_index.__index = seen
        lift_memory()
        if overdue_text then
            ok, value = false, { err = overdue_text }
        end
        local functions = registrar.finish()
        finish()
        return ok, ok and functions or value
    end
end

-- Returns the number of elements of an array of strings, numbers and booleans that is handed out in one piece; nil for
-- any other table, and for one with many or long elements.
local function flat_count(values)
    local count, size = 0, 0
    for key, value in next, values do
        count = count + 1
        if key ~= count or count > FLAT_COUNT_MAX then
            return nil
        end
        local kind = type(value)
        if kind == "string" then
            size = size + #value
        elseif kind ~= "number" and kind ~= "boolean" then
            return nil
        end
    end
    return count > 0 and size <= FLAT_SIZE_MAX and count or nil
end

-- Runs a script with the words `...`, of which the first `key_count` are keys; without a count, the tables are set
-- already. Python has set the limit of memory. Returns the result of the script if it is one value; true and the text of
-- a status; false and the elements of a short array; nil and the error if the script failed.
function border.run(action, key_count, ...)
    if key_count == 0 then
        set_words({}, { ... })
    elseif key_count == 1 then
        set_words({ (...) }, { select(2, ...) })
    elseif key_count then
        set_words({ raw_unpack({ ... }, 1, key_count) }, { select(key_count + 1, ...) })
    end
    running, roomy_kib = action, gcinfo() + host.roomy_kib
    local ok, value = raw_xpcall(has_libraries and call_function or action, handle)
    running = nil
    if ok and type(value) == "table" and not overdue_text and gcinfo() < roomy_kib then
        local count = flat_count(value)
        if count then
            finish()
            return false, raw_unpack(value, 1, count)
        end
        local status = rawget(value, "ok")
        if type(status) == "string" and type(rawget(value, "err")) ~= "string" then
            finish()
            return true, status
        end
    end
    if type(value) == "table" or overdue_text then
        lift_memory() -- Lua needs memory to hand out a table
    end
    if ok and overdue_text then
        ok, value = false, { err = overdue_text }
    end
    if not PLAIN[type(value)] then
        value = nil
    end
    finish()
    if ok then
        return value
    end
    return nil, value
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

-- Sets the reasons to end a script.
function border.set_reasons(...)
    overdue_texts = { ... }
end

local function text_field(values, name)
    local value = rawget(values, name)
    return type(value) == "string" and value or nil
end

-- Returns the kind of a result table, as a word, and its content.
function border.kind(values)
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

-- Returns the elements of an array.
function border.items(values, count)
    local items = {}
    for index = 1, count do
        items[index] = plain(rawget(values, index))
    end
    return items
end

-- Returns keys and values alternately.
function border.pairs(values)
    local items, count = {}, 0
    for key, value in next, values do
        items[count + 1], items[count + 2] = plain(key), plain(value)
        count = count + 2
    end
    return items
end

sethook(watch, "", OVERDUE_CHECK_INSTRUCTIONS)
return border
