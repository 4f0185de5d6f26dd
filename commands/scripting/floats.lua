-- Numbers as bytes, big-endian, for the libraries that pack values. Part of the sandbox.
local tostring, unpack = tostring, unpack
local byte, char = string.byte, string.char
local floor, frexp, ldexp, huge = math.floor, math.frexp, math.ldexp, math.huge

-- Returns the bytes of an integer below 256 ^ size.
local function whole_bytes(number, size)
    local bytes = {}
    for index = size, 1, -1 do
        bytes[index] = number % 256
        number = floor(number / 256)
    end
    return char(unpack(bytes))
end

-- Returns the bytes of an IEEE 754 float with that many bits of exponent and fraction.
local function float_bytes(number, exponent_bits, fraction_bits)
    local sign, exponent_max = 0, 2 ^ exponent_bits - 1
    local bias = 2 ^ (exponent_bits - 1) - 1
    local exponent, fraction
    if number ~= number then
        sign, exponent, fraction = byte(tostring(number)) == 45 and 1 or 0, exponent_max, 2 ^ (fraction_bits - 1)
    elseif number == huge or number == -huge then
        sign, exponent, fraction = number < 0 and 1 or 0, exponent_max, 0
    elseif number == 0 then
        sign, exponent, fraction = 1 / number < 0 and 1 or 0, 0, 0
    else
        if number < 0 then
            sign, number = 1, -number
        end
        fraction, exponent = frexp(number)
        exponent = exponent - 1 + bias
        if exponent > 0 then
            fraction = ldexp(fraction * 2 - 1, fraction_bits)
        else -- a subnormal number
            fraction, exponent = ldexp(fraction, fraction_bits + exponent), 0
        end
    end
    -- The bits of the fraction in the byte that it shares with the exponent.
    local high_bits = fraction_bits % 8
    local low = ldexp(1, fraction_bits - high_bits)
    local head = (sign * (exponent_max + 1) + exponent) * 2 ^ high_bits + floor(fraction / low)
    return whole_bytes(head, 2) .. whole_bytes(fraction % low, (fraction_bits - high_bits) / 8)
end

-- Returns the number of a float with that many bits of exponent and fraction, which begins at a byte of a text.
local function read_float(text, at, exponent_bits, fraction_bits)
    local high_bits = fraction_bits % 8
    local head = byte(text, at) * 256 + byte(text, at + 1)
    local fraction = head % 2 ^ high_bits
    for index = at + 2, at + 1 + (fraction_bits - high_bits) / 8 do
        fraction = fraction * 256 + byte(text, index)
    end
    head = floor(head / 2 ^ high_bits)
    local exponent = head % 2 ^ exponent_bits
    local sign = head >= 2 ^ exponent_bits and -1 or 1
    if exponent == 2 ^ exponent_bits - 1 then
        return fraction == 0 and sign * huge or sign < 0 and 0 / 0 or -(0 / 0)
    end
    local bias = 2 ^ (exponent_bits - 1) - 1
    if exponent == 0 then
        return sign * ldexp(fraction, 1 - bias - fraction_bits)
    end
    return sign * ldexp(1 + ldexp(fraction, -fraction_bits), exponent - bias)
end

-- Rounds a number to a 32-bit float, to the even one of two that are equally near.
local function as_float(number)
    if number ~= number or number == huge or number == -huge or number == 0 then
        return number
    end
    local fraction, exponent = frexp(number)
    local bits = exponent > -126 and 24 or 24 + 125 + exponent
    local scaled = ldexp(fraction, bits)
    local whole = floor(scaled)
    local rest = scaled - whole
    if rest > 0.5 or rest == 0.5 and whole % 2 == 1 then
        whole = whole + 1
    end
    local rounded = ldexp(whole, exponent - bits)
    if rounded >= 2 ^ 128 or rounded <= -2 ^ 128 then
        return number < 0 and -huge or huge
    end
    return rounded == 0 and number < 0 and -rounded or rounded
end

return { whole_bytes = whole_bytes, float_bytes = float_bytes, read_float = read_float, as_float = as_float }
