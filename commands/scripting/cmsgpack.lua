-- The library cmsgpack of Redis scripts (lua-cmsgpack 0.4.0), with equal bytes and errors. Part of the sandbox.
local host = ...
local fail, bad_argument, as_int, fronts = host.fail, host.bad_argument, host.as_int, host.fronts
local whole_bytes, float_bytes, read_float = host.floats.whole_bytes, host.floats.float_bytes, host.floats.read_float
local type, tostring, tonumber, pairs, select, error, unpack = type, tostring, tonumber, pairs, select, error, unpack
local byte, char, sub, concat = string.byte, string.char, string.sub, table.concat
local ceil, floor, frexp, ldexp, huge = math.ceil, math.floor, math.frexp, math.ldexp, math.huge

-- Maximum depth of packed tables; deeper values are packed as nil.
local NESTING_MAX = 16
-- Maximum depth of unpacked tables; the stack of Lua has room for 20000 calls.
local DEPTH_MAX = 4000
local ARGUMENTS_COUNT_MAX = 4000
-- Maximum number of values returned by one call.
local VALUES_COUNT_MAX = 7900
local TOO_MANY = "stack overflow (too many return values at once; use unpack_one or unpack_limit instead.)"

-- Numbers as bytes, big-endian -------------------------------------------------------------------

-- Returns the two's complement of a negative integer. A double cannot represent 2 ^ 64 - 1.
local function negative_bytes(number, size)
    local bytes, rest = {}, -number
    local carry = 1
    for index = size, 1, -1 do
        local value = 255 - rest % 256 + carry
        rest, carry = floor(rest / 256), value > 255 and 1 or 0
        bytes[index] = value % 256
    end
    return char(unpack(bytes))
end

-- Whether a 32-bit float represents the number exactly.
local function is_float(number)
    if number == huge or number == -huge then
        return true
    end
    local fraction, exponent = frexp(number)
    local bits = exponent > -126 and 24 or 24 + 125 + exponent
    if number ~= number or exponent > 128 or bits < 1 then
        return false
    end
    fraction = ldexp(fraction, bits)
    return fraction == floor(fraction)
end

-- Packing ---------------------------------------------------------------------------------------

local function packed_number(number)
    if number ~= floor(number) or number < -2 ^ 63 or number >= 2 ^ 63 then
        if is_float(number) then
            return "\202" .. float_bytes(number, 8, 23)
        end
        return "\203" .. float_bytes(number, 11, 52)
    elseif number >= 0 then
        if number < 128 then
            return char(number)
        elseif number < 2 ^ 8 then
            return "\204" .. char(number)
        elseif number < 2 ^ 16 then
            return "\205" .. whole_bytes(number, 2)
        elseif number < 2 ^ 32 then
            return "\206" .. whole_bytes(number, 4)
        end
        return "\207" .. whole_bytes(number, 8)
    elseif number >= -32 then
        return char(256 + number)
    elseif number >= -2 ^ 7 then
        return "\208" .. char(256 + number)
    elseif number >= -2 ^ 15 then
        return "\209" .. negative_bytes(number, 2)
    elseif number >= -2 ^ 31 then
        return "\210" .. negative_bytes(number, 4)
    end
    return "\211" .. negative_bytes(number, 8)
end

local function string_head(size)
    if size < 32 then
        return char(160 + size)
    elseif size < 2 ^ 8 then
        return "\217" .. char(size)
    elseif size < 2 ^ 16 then
        return "\218" .. whole_bytes(size, 2)
    end
    return "\219" .. whole_bytes(size, 4)
end

-- Returns the header of an array or a map.
local function table_head(count, first, mark)
    if count < 16 then
        return char(first + count)
    elseif count < 2 ^ 16 then
        return char(mark) .. whole_bytes(count, 2)
    end
    return char(mark + 1) .. whole_bytes(count, 4)
end

local function is_array(values)
    local count, largest = 0, 0
    for key in pairs(values) do
        if type(key) ~= "number" or key <= 0 or key ~= floor(key) or key >= 2 ^ 63 then
            return false
        end
        count, largest = count + 1, key > largest and key or largest
    end
    return count == largest
end

local function pack_value(value, pieces, level)
    local kind = type(value)
    if kind == "table" then
        value = fronts[value] or value
    end
    if kind == "string" then
        pieces[#pieces + 1] = string_head(#value)
        pieces[#pieces + 1] = value
    elseif kind == "number" then
        pieces[#pieces + 1] = packed_number(value)
    elseif kind == "boolean" then
        pieces[#pieces + 1] = value and "\195" or "\194"
    elseif kind ~= "table" or level == NESTING_MAX then
        pieces[#pieces + 1] = "\192"
    elseif is_array(value) then
        pieces[#pieces + 1] = table_head(#value, 144, 220)
        for index = 1, #value do
            pack_value(value[index], pieces, level + 1)
        end
    else
        local count = 0
        for _ in pairs(value) do
            count = count + 1
        end
        pieces[#pieces + 1] = table_head(count, 128, 222)
        for key, item in pairs(value) do
            pack_value(key, pieces, level + 1)
            pack_value(item, pieces, level + 1)
        end
    end
end

local cmsgpack = {
    _NAME = "cmsgpack", _VERSION = "lua-cmsgpack 0.4.0",
    _COPYRIGHT = "Copyright (C) 2012, Salvatore Sanfilippo", _DESCRIPTION = "MessagePack C implementation for Lua",
}

function cmsgpack.pack(...)
    local count = select("#", ...)
    if count == 0 then
        bad_argument("pack", 0, "MessagePack pack needs input.")
    elseif count > ARGUMENTS_COUNT_MAX then
        bad_argument("pack", 0, "Too many arguments for MessagePack pack.")
    end
    local values, pieces = { ... }, {}
    for index = 1, count do
        pack_value(values[index], pieces, 0)
    end
    return concat(pieces)
end

-- Unpacking -------------------------------------------------------------------------------------

local MISSING = "Missing bytes in input."

-- Reads an unsigned integer.
local function read_whole(text, at, size)
    if at + size - 1 > #text then
        fail(MISSING)
    end
    local number = 0
    for index = at, at + size - 1 do
        number = number * 256 + byte(text, index)
    end
    return number
end

local read_signed

function read_signed(text, at, size)
    if size == 8 then -- in two halves, so that the number is rounded once
        local high = read_signed(text, at, 4)
        return high * 2 ^ 32 + read_whole(text, at + 4, 4)
    end
    local number = read_whole(text, at, size)
    return byte(text, at) < 128 and number or number - 256 ^ size
end

local function read_text(text, at, size)
    if at + size - 1 > #text then
        fail(MISSING)
    end
    return sub(text, at, at + size - 1), at + size
end

local unpack_value

local function unpack_array(text, at, count, depth)
    local values = {}
    if depth == DEPTH_MAX then
        fail("stack overflow (in function mp_decode_to_lua_array)")
    end
    for index = 1, count do
        values[index], at = unpack_value(text, at, depth + 1)
    end
    return values, at
end

local function unpack_map(text, at, count, depth)
    local values = {}
    if depth == DEPTH_MAX then
        fail(TOO_MANY)
    end
    for _ = 1, count do
        local key, value
        key, at = unpack_value(text, at, depth + 1)
        value, at = unpack_value(text, at, depth + 1)
        if key == nil then
            error("table index is nil", 0)
        elseif key ~= key then
            error("table index is NaN", 0)
        end
        values[key] = value
    end
    return values, at
end

local UNSIGNED = { [204] = 1, [205] = 2, [206] = 4 }
-- Code: size of a signed integer; 64 bits are always signed.
local SIGNED = { [207] = 8, [208] = 1, [209] = 2, [210] = 4, [211] = 8 }
-- Code: number of bytes of a text's size.
local TEXTS = { [217] = 1, [218] = 2, [219] = 4 }
local ARRAYS, MAPS = { [220] = 2, [221] = 4 }, { [222] = 2, [223] = 4 }
local CONSTANTS = { [194] = false, [195] = true }

-- Returns the value, and the index of the next one.
function unpack_value(text, at, depth)
    local mark = byte(text, at)
    if not mark then
        fail(MISSING)
    end
    at = at + 1
    if mark < 128 then
        return mark, at
    elseif mark < 144 then
        return unpack_map(text, at, mark - 128, depth)
    elseif mark < 160 then
        return unpack_array(text, at, mark - 144, depth)
    elseif mark < 192 then
        return read_text(text, at, mark - 160)
    elseif mark >= 224 then
        return mark - 256, at
    elseif mark == 192 then
        return nil, at
    elseif CONSTANTS[mark] ~= nil then
        return CONSTANTS[mark], at
    elseif mark == 202 or mark == 203 then
        local size = mark == 202 and 4 or 8
        read_text(text, at, size)
        if size == 4 then
            return read_float(text, at, 8, 23), at + size
        end
        return read_float(text, at, 11, 52), at + size
    elseif UNSIGNED[mark] then
        return read_whole(text, at, UNSIGNED[mark]), at + UNSIGNED[mark]
    elseif SIGNED[mark] then
        return read_signed(text, at, SIGNED[mark]), at + SIGNED[mark]
    end
    local size = TEXTS[mark] or ARRAYS[mark] or MAPS[mark]
    if not size then
        fail("Bad data format in input.")
    end
    local count = read_whole(text, at, size)
    return (TEXTS[mark] and read_text or ARRAYS[mark] and unpack_array or unpack_map)(text, at + size, count, depth)
end

-- Returns a table of the values, their number, and the index of the rest.
local function unpack_all(text, limit, offset)
    if offset < 0 or limit < 0 then
        fail("Invalid request to unpack with offset of " .. as_int(offset) .. " and limit of " .. #text .. ".")
    elseif offset > #text then
        fail("Start offset " .. as_int(offset) .. " greater than input length " .. #text .. ".")
    end
    local is_limited = limit > 0 or offset > 0
    local values, count, at = {}, 0, offset + 1
    while at <= #text and (not is_limited or count < limit) do
        if count == VALUES_COUNT_MAX then
            fail(TOO_MANY)
        end
        count = count + 1
        values[count], at = unpack_value(text, at, 0)
    end
    return values, count, at > #text and -1 or at - 1
end

-- Returns the text argument and the numbers after it.
local function arguments(name, ...)
    local count = select("#", ...)
    local text, first, second = ...
    if type(text) == "number" then
        text = tostring(text)
    elseif type(text) ~= "string" then
        bad_argument(name, 1, "string expected, got " .. (count == 0 and "no value" or type(text)))
    end
    return text, first, second
end

local function number_argument(name, index, value, is_missing)
    local number = tonumber(value)
    if not number then
        bad_argument(name, index, "number expected, got " .. (is_missing and "no value" or type(value)))
    end
    return number < 0 and ceil(number) or floor(number)
end

function cmsgpack.unpack(...)
    local text = arguments("unpack", ...)
    local values, count = unpack_all(text, 0, 0)
    return unpack(values, 1, count)
end

function cmsgpack.unpack_one(...)
    local text, offset = arguments("unpack_one", ...)
    offset = offset == nil and 0 or number_argument("unpack_one", 2, offset)
    local values, count, rest = unpack_all(text, 1, offset)
    return rest, unpack(values, 1, count)
end

function cmsgpack.unpack_limit(...)
    local text, limit, offset = arguments("unpack_limit", ...)
    limit = number_argument("unpack_limit", 2, limit, select("#", ...) < 2)
    offset = offset == nil and 0 or number_argument("unpack_limit", 3, offset)
    local values, count, rest = unpack_all(text, limit, offset)
    if limit == 0 and offset == 0 then
        return unpack(values, 1, count)
    end
    return rest, unpack(values, 1, count)
end

return cmsgpack
