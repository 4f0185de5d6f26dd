-- The library struct of Redis scripts, with equal bytes and errors. Part of the sandbox.
local host = ...
local fail, bad_argument = host.fail, host.bad_argument
local whole_bytes, float_bytes, read_float = host.floats.whole_bytes, host.floats.float_bytes, host.floats.read_float
local as_float = host.floats.as_float
local type, tostring, tonumber, select, unpack = type, tostring, tonumber, select, unpack
local byte, find, match, rep, reverse, sub = string.byte, string.find, string.match, string.rep, string.reverse, string.sub
local concat, ceil, floor = table.concat, math.ceil, math.floor

local ALIGNMENT = 8
local INTEGER_SIZE_MAX = 32
local INT_MAX = 2 ^ 31 - 1
local WORD = 2 ^ 32
-- Maximum number of values returned by one call.
local VALUES_COUNT_MAX = 7900

-- Sizes of the options that have one.
local SIZES = { b = 1, B = 1, h = 2, H = 2, l = 8, L = 8, T = 8, f = 4, d = 8, x = 1 }
local INTEGERS = "^[bBhHlLTiI]$"

-- Arguments -------------------------------------------------------------------------------------

local function text_argument(name, index, value, is_missing)
    local kind = type(value)
    if kind == "string" then
        return value
    elseif kind ~= "number" then
        bad_argument(name, index, "string expected, got " .. (is_missing and "no value" or kind))
    end
    return tostring(value)
end

local function number_argument(name, index, value)
    local number = tonumber(value)
    if not number then
        bad_argument(name, index, "number expected, got " .. type(value))
    end
    return number
end

-- Formats ---------------------------------------------------------------------------------------

-- Returns the number in a format from `at` on, or a default, and where the format continues.
local function number_at(format, at, default)
    local digits = match(format, "^%d+", at)
    if not digits then
        return default, at
    end
    local number = 0
    for index = 1, #digits do
        number = number * 10 + tonumber(sub(digits, index, index))
        if number > INT_MAX then
            fail("integral size overflow")
        end
    end
    return number, at + #digits
end

-- The bits that both numbers have; the second one is small.
local function common_bits(first, second)
    local result, bit = 0, 1
    while bit <= second do
        if floor(first / bit) % 2 == 1 and floor(second / bit) % 2 == 1 then
            result = result + bit
        end
        bit = bit * 2
    end
    return result
end

-- Bytes between a position and the next option.
local function padding(position, options, option, size)
    if size == 0 or option == "c" then
        return 0
    end
    if size > options.alignment then
        size = options.alignment
    end
    return common_bits(size - common_bits(position, size - 1), size - 1)
end

-- Returns the option at `at`, its size, and where the format continues.
local function option_at(format, at)
    local option = sub(format, at, at)
    at = at + 1
    local size = SIZES[option] or 0
    if option == "c" then
        size, at = number_at(format, at, 1)
    elseif option == "i" or option == "I" then
        size, at = number_at(format, at, 4)
        if size > INTEGER_SIZE_MAX then
            fail("integral size " .. size .. " is larger than limit of " .. INTEGER_SIZE_MAX)
        end
    end
    return option, size, at
end

local function is_power_of_2(number)
    while number > 1 and number % 2 == 0 do
        number = number / 2
    end
    return number == 1
end

-- Follows an option without a value, and returns where the format continues.
local function follow(name, format, at, options, option)
    if option == ">" or option == "<" then
        options.is_big = option == ">"
    elseif option == "!" then
        options.alignment, at = number_at(format, at, ALIGNMENT)
        if not is_power_of_2(options.alignment) then
            fail("alignment " .. options.alignment .. " is not a power of 2")
        end
    elseif option ~= " " then
        bad_argument(name, 1, "invalid format option '" .. option .. "'")
    end
    return at
end

-- Returns a format up to its first zero byte, where C ends it.
local function format_argument(name, value, is_missing)
    return match(text_argument(name, 1, value, is_missing), "^%Z*")
end

local function new_options()
    return { is_big = false, alignment = 1 }
end

-- Integers --------------------------------------------------------------------------------------

-- Returns a number as the two halves of 64 bits, as C converts it.
local function halves(number)
    if number ~= number or number <= -2 ^ 63 then
        return 2 ^ 31, 0
    elseif number >= 2 ^ 64 then
        return 0, 0
    elseif number >= 0 then
        number = floor(number)
        return floor(number / WORD), number % WORD
    end
    number = -ceil(number)
    local high, low = floor(number / WORD), number % WORD
    low = (WORD - low) % WORD
    high = (WORD - 1 - high + (low == 0 and 1 or 0)) % WORD
    return high, low
end

local function integer_bytes(number, size, is_big)
    local high, low = halves(number)
    local bytes = whole_bytes(high, 4) .. whole_bytes(low, 4)
    if size > 8 then
        bytes = rep("\0", size - 8) .. bytes
    else
        bytes = sub(bytes, 9 - size)
    end
    return is_big and bytes or reverse(bytes)
end

-- Returns the integer in big-endian bytes, of which C keeps the last 64 bits.
local function read_integer(bytes, is_signed)
    local size = #bytes
    local high, low = 0, 0
    for index = size > 8 and size - 7 or 1, size do
        high = (high * 256 + floor(low / 2 ^ 24)) % WORD
        low = low * 256 % WORD + byte(bytes, index)
    end
    if not is_signed or size == 0 then
        return high * WORD + low
    end
    -- All bits from this one on tell the sign; C takes the number of the bit modulo 64.
    local sign_bit = (size * 8 - 1) % 64
    local low_step, high_step = 2 ^ (sign_bit < 32 and sign_bit or 32), 2 ^ (sign_bit > 32 and sign_bit - 32 or 0)
    local is_negative = low >= low_step or high >= high_step
    if not is_negative then
        return high * WORD + low
    end
    low = low % low_step + (WORD - low_step)
    high = high % high_step + (WORD - high_step)
    -- The complement, of which the sign is known.
    return -((WORD - 1 - high) * WORD + (WORD - low))
end

-- The functions ---------------------------------------------------------------------------------

local struct = {}

function struct.pack(...)
    local count, values = select("#", ...), { ... }
    local format = format_argument("pack", values[1], count == 0)
    local options, pieces, position, argument, at = new_options(), {}, 0, 2, 1
    while at <= #format do
        local option, size
        option, size, at = option_at(format, at)
        local gap = padding(position, options, option, size)
        local piece = ""
        if find(option, INTEGERS) then
            piece = integer_bytes(number_argument("pack", argument, values[argument]), size, options.is_big)
            argument = argument + 1
        elseif option == "x" then
            piece = "\0"
        elseif option == "f" or option == "d" then
            local number = number_argument("pack", argument, values[argument])
            piece = option == "d" and float_bytes(number, 11, 52) or float_bytes(as_float(number), 8, 23)
            piece = options.is_big and piece or reverse(piece)
            argument = argument + 1
        elseif option == "c" or option == "s" then
            local text = text_argument("pack", argument, values[argument])
            argument = argument + 1
            if size > #text then
                bad_argument("pack", argument, "string too short")
            end
            piece = size == 0 and text or sub(text, 1, size)
            if option == "s" then
                piece = piece .. "\0"
            end
        else
            at = follow("pack", format, at, options, option)
        end
        pieces[#pieces + 1] = rep("\0", gap) .. piece
        position = position + gap + #piece
    end
    return concat(pieces)
end

-- Returns an offset argument as C converts it, counted from 0.
local function offset_argument(value)
    if value == nil then
        return 0
    end
    local number = number_argument("unpack", 3, value)
    number = number < 0 and ceil(number) or floor(number)
    if number == 0 then
        bad_argument("unpack", 3, "offset must be 1 or greater")
    end
    return number - 1
end

function struct.unpack(...)
    local count = select("#", ...)
    local format, text, offset = ...
    format = format_argument("unpack", format, count == 0)
    text = text_argument("unpack", 2, text, count < 2)
    local position, options, values, found, at = offset_argument(offset), new_options(), {}, 0, 1

    local function require_bytes(size)
        if position < 0 or size < 0 or position + size > #text then
            bad_argument("unpack", 2, "data string too short")
        end
    end

    while at <= #format do
        local option, size
        option, size, at = option_at(format, at)
        if position >= 0 then
            position = position + padding(position, options, option, size)
        end
        require_bytes(size)
        if found == VALUES_COUNT_MAX then
            fail("stack overflow (too many results)")
        end
        local is_value, value = true, nil
        if find(option, INTEGERS) then
            local bytes = sub(text, position + 1, position + size)
            value = read_integer(options.is_big and bytes or reverse(bytes), find(option, "%l"))
        elseif option == "f" or option == "d" then
            local bytes = sub(text, position + 1, position + size)
            bytes = options.is_big and bytes or reverse(bytes)
            value = option == "d" and read_float(bytes, 1, 11, 52) or read_float(bytes, 1, 8, 23)
        elseif option == "c" then
            if size == 0 then
                size = found > 0 and tonumber(values[found])
                if not size then
                    fail("format 'c0' needs a previous size")
                end
                size = size >= 2 ^ 64 and 0 or size ~= size and 2 ^ 63 or size < 0 and ceil(size) or floor(size)
                found = found - 1
                require_bytes(size)
            end
            value = sub(text, position + 1, position + size)
        elseif option == "s" then
            local last = find(text, "\0", position + 1, true)
            if not last then
                fail("unfinished string in data")
            end
            size = last - position
            value = sub(text, position + 1, last - 1)
        else
            is_value = false
            if option ~= "x" then
                at = follow("unpack", format, at, options, option)
            end
        end
        if is_value then
            found = found + 1
            values[found] = value
        end
        position = position + size
    end
    values[found + 1] = position + 1
    return unpack(values, 1, found + 1)
end

function struct.size(...)
    local count = select("#", ...)
    local format = format_argument("size", (...), count == 0)
    local options, position, at = new_options(), 0, 1
    while at <= #format do
        local option, size
        option, size, at = option_at(format, at)
        position = position + padding(position, options, option, size)
        if option == "s" or option == "c" and size == 0 then
            bad_argument("size", 1, "option '" .. (option == "s" and "s" or "c0") .. "' has no fixed size")
        elseif not find(option, "%w") then
            at = follow("size", format, at, options, option)
        end
        position = position + size
    end
    return position
end

return struct
