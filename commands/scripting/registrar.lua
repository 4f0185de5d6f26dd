-- redis.register_function, with the errors of Redis: libraries register their functions while they are loaded. Part of the
-- sandbox.
local host = ...
local fronts = host.fronts
local type, tostring, select, error, next = type, tostring, select, error, next
local lower, match = string.lower, string.match

local FLAGS = {
    ["no-writes"] = true, ["allow-oom"] = true, ["allow-stale"] = true, ["no-cluster"] = true,
    ["allow-cross-slot-keys"] = true,
}
local NAME_RULE = "Library names can only contain letters, numbers, or underscores(_) and must be at least one character long"

local registrar = {}
-- The functions of the library that is being loaded, and their names; nil at other times.
local functions, names

local function fail(text)
    error({ err = "ERR " .. text }, 0)
end

-- Returns a string, or a number as a string; nil for other values.
local function text_of(value)
    if type(value) == "string" then
        return value
    end
    return type(value) == "number" and tostring(value) or nil
end

-- Returns the flags in a list as keys of a table.
local function read_flags(list)
    local flags, index = {}, 1
    while list[index] ~= nil do
        local flag = text_of(list[index])
        flag = flag and lower(match(flag, "^%Z*"))
        if not FLAGS[flag or ""] then
            fail("unknown flag given")
        end
        flags[flag], index = true, index + 1
    end
    return flags
end

local function read_named(arguments)
    local name, callback, description, flags
    for key, value in next, fronts[arguments] or arguments do
        key = text_of(key)
        if not key then
            fail("named argument key given to redis.register_function is not a string")
        end
        key = lower(match(key, "^%Z*"))
        if key == "function_name" then
            name = text_of(value) or fail("function_name argument given to redis.register_function must be a string")
        elseif key == "description" then
            description = text_of(value)
                or fail("description argument given to redis.register_function must be a string")
        elseif key == "callback" then
            if type(value) ~= "function" then
                fail("callback argument given to redis.register_function must be a function")
            end
            callback = value
        elseif key == "flags" then
            if type(value) ~= "table" then
                fail("flags argument to redis.register_function must be a table representing function flags")
            end
            flags = read_flags(value)
        else
            fail("unknown argument given to redis.register_function")
        end
    end
    if not name then
        fail("redis.register_function must get a function name argument")
    elseif not callback then
        fail("redis.register_function must get a callback argument")
    end
    return name, callback, description, flags
end

local function read_positional(...)
    local name, callback = ...
    if select("#", ...) == 1 then
        fail(
            "calling redis.register_function with a single argument is only applicable to Lua table "
                .. "(representing named arguments)."
        )
    end
    name = text_of(name) or fail("first argument to redis.register_function must be a string")
    if type(callback) ~= "function" then
        fail("second argument to redis.register_function must be a function")
    end
    return name, callback
end

function registrar.register_function(...)
    local count = select("#", ...)
    if not functions then
        fail("redis.register_function can only be called on FUNCTION LOAD command")
    elseif count < 1 or count > 2 then
        fail("wrong number of arguments to redis.register_function")
    end
    local name, callback, description, flags
    if count == 1 and type((...)) == "table" then
        name, callback, description, flags = read_named(...)
    else
        name, callback = read_positional(...)
    end
    if not match(name, "^[A-Za-z0-9_]+$") then
        fail(NAME_RULE)
    elseif names[name] then
        fail("Function already exists in the library")
    end
    names[name] = true
    functions[#functions + 1] =
        { name = name, callback = callback, description = description or false, flags = flags or {} }
end

-- Begins to collect the functions of a library.
function registrar.begin()
    functions, names = {}, {}
end

-- Returns the functions in the order of their registration.
function registrar.finish()
    local registered = functions
    functions, names = nil, nil
    return registered
end

return registrar
