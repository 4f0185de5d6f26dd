-- The library cjson of Redis scripts (lua-cjson 2.1), with equal texts and errors. Part of the sandbox.
-- `null` is the value for JSON's null.
local null, host = ...
local fail, bad_argument, fronts = host.fail, host.bad_argument, host.fronts
local type, tostring, tonumber, pairs, rawget, select = type, tostring, tonumber, pairs, rawget, select
local byte, char, find, format, gsub, sub = string.byte, string.char, string.find, string.format, string.gsub, string.sub
local concat, floor, huge = table.concat, math.floor, math.huge

-- A discarded result.
local _

local DEPTH_MAX = 1000
-- Maximum ratio of an array's length to its number of elements,
local SPARSE_RATIO = 2
-- and the length up to which any ratio is accepted.
local SPARSE_SAFE = 10

local ESCAPES = { ['"'] = '\\"', ["\\"] = "\\\\", ["/"] = "\\/", ["\b"] = "\\b", ["\t"] = "\\t", ["\n"] = "\\n",
    ["\f"] = "\\f", ["\r"] = "\\r" }

for code = 0, 127 do
    if code < 32 or code == 127 then
        ESCAPES[char(code)] = ESCAPES[char(code)] or format("\\u%04x", code)
    end
end

local function quoted(text)
    return '"' .. gsub(text, '[%c"\\/\127]', ESCAPES) .. '"'
end

-- Encoding --------------------------------------------------------------------------------------

local encode_value

local function number_text(number)
    if number ~= number or number == huge or number == -huge then
        return nil, "Cannot serialise number: must not be NaN or Inf"
    end
    return format("%.14g", number)
end

-- Returns the largest index if all keys are positive integers, else nil.
local function array_length(values)
    local largest, count = 0, 0
    for key in pairs(values) do
        if type(key) ~= "number" or key <= 0 or floor(key) ~= key then
            return nil
        end
        if key > largest then
            largest = key
        end
        count = count + 1
    end
    if largest > count * SPARSE_RATIO and largest > SPARSE_SAFE then
        return nil, "Cannot serialise table: excessively sparse array"
    end
    return largest
end

local function encode_table(values, pieces, depth)
    if depth > DEPTH_MAX then
        return "Cannot serialise, excessive nesting (" .. depth .. ")"
    end
    values = fronts[values] or values
    local length, problem = array_length(values)
    if problem then
        return problem
    end
    if length and length > 0 then
        for index = 1, length do
            pieces[#pieces + 1] = index == 1 and "[" or ","
            problem = encode_value(rawget(values, index), pieces, depth)
            if problem then
                return problem
            end
        end
        pieces[#pieces + 1] = "]"
        return nil
    end
    local mark = "{"
    for key, value in pairs(values) do
        if type(key) == "number" then
            local text
            text, problem = number_text(key)
            if problem then
                return problem
            end
            key = '"' .. text .. '"'
        elseif type(key) == "string" then
            key = quoted(key)
        else
            return "Cannot serialise " .. type(key) .. ": table key must be a number or string"
        end
        pieces[#pieces + 1] = mark .. key .. ":"
        problem = encode_value(value, pieces, depth)
        if problem then
            return problem
        end
        mark = ","
    end
    pieces[#pieces + 1] = mark == "{" and "{}" or "}"
end

-- Returns an error text, or nil.
function encode_value(value, pieces, depth)
    local kind = type(value)
    if kind == "string" then
        pieces[#pieces + 1] = quoted(value)
    elseif kind == "number" then
        local text, problem = number_text(value)
        pieces[#pieces + 1] = text
        return problem
    elseif kind == "boolean" then
        pieces[#pieces + 1] = tostring(value)
    elseif kind == "nil" or value == null then
        pieces[#pieces + 1] = "null"
    elseif kind == "table" then
        return encode_table(value, pieces, depth + 1)
    else
        return "Cannot serialise " .. kind .. ": type not supported"
    end
end

local cjson = { null = null, _NAME = "cjson", _VERSION = "2.1.0" }

function cjson.encode(...)
    if select("#", ...) ~= 1 then
        bad_argument("encode", 1, "expected 1 argument")
    end
    local pieces = {}
    local problem = encode_value((...), pieces, 0)
    if problem then
        fail(problem)
    end
    return concat(pieces)
end

-- Decoding --------------------------------------------------------------------------------------

local UNESCAPES = { ['"'] = '"', ["\\"] = "\\", ["/"] = "/", b = "\b", f = "\f", n = "\n", r = "\r", t = "\t" }
local MARKS = { ["{"] = "T_OBJ_BEGIN", ["}"] = "T_OBJ_END", ["["] = "T_ARR_BEGIN", ["]"] = "T_ARR_END",
    [","] = "T_COMMA", [":"] = "T_COLON" }

local function utf8(code)
    if code < 0x80 then
        return char(code)
    elseif code < 0x800 then
        return char(0xC0 + floor(code / 0x40), 0x80 + code % 0x40)
    elseif code < 0x10000 then
        return char(0xE0 + floor(code / 0x1000), 0x80 + floor(code / 0x40) % 0x40, 0x80 + code % 0x40)
    end
    return char(0xF0 + floor(code / 0x40000), 0x80 + floor(code / 0x1000) % 0x40, 0x80 + floor(code / 0x40) % 0x40,
        0x80 + code % 0x40)
end

-- Decodes the escape at `at`. Returns its text and the next index, or nil and an error text.
local function unescape(text, at)
    local mark = sub(text, at + 1, at + 1)
    if UNESCAPES[mark] then
        return UNESCAPES[mark], at + 2
    end
    local _, last, digits = find(text, "^u(%x%x%x%x)", at + 1)
    if not last then
        return nil, mark == "u" and "invalid unicode escape code" or "invalid escape code"
    end
    local code = tonumber(digits, 16)
    if code >= 0xD800 and code < 0xE000 then
        local _, end_of_low, low = find(text, "^\\u(%x%x%x%x)", last + 1)
        low = low and tonumber(low, 16)
        if code >= 0xDC00 or not low or low < 0xDC00 or low >= 0xE000 then
            return nil, "invalid unicode escape code"
        end
        code, last = 0x10000 + (code - 0xD800) * 0x400 + low - 0xDC00, end_of_low
    end
    return utf8(code), last + 1
end

-- Returns the kind, the value and the index of a token, and the index at which the next one may begin.
local function string_token(text, start)
    local pieces, at = {}, start + 1
    while true do
        local stop = find(text, '["\\]', at)
        if not stop then
            return "unexpected end of string", nil, #text + 1, #text + 1
        end
        pieces[#pieces + 1] = sub(text, at, stop - 1)
        if byte(text, stop) == 34 then
            return "T_STRING", concat(pieces), start, stop + 1
        end
        local piece, after = unescape(text, stop)
        if not piece then
            return after, nil, stop, stop
        end
        pieces[#pieces + 1], at = piece, after
    end
end

local WORDS = { { "^true", true, "T_BOOLEAN" }, { "^false", false, "T_BOOLEAN" }, { "^null", null, "T_NULL" } }
local HEXADECIMAL = "^[+-]?0[xX]%x+"
-- The parts of a number; the last two are optional.
local PARTS = { "^[+-]?%d+", "^%.%d*", "^[eE][+-]?%d+" }
local WITHOUT_WHOLE = "^[+-]%.%d+"

-- Matches part by part, because one pattern for all parts would backtrack over each digit.
local function number_end(text, start)
    local _, last = find(text, HEXADECIMAL, start)
    if last then
        return last
    end
    _, last = find(text, PARTS[1], start)
    if not last then
        _, last = find(text, WITHOUT_WHOLE, start)
        return last
    end
    for index = 2, #PARTS do
        local _, end_of_part = find(text, PARTS[index], last + 1)
        last = end_of_part or last
    end
    return last
end

local function token(text, at)
    local start = find(text, "[^ \t\n\r]", at)
    if not start then
        return "T_END", nil, #text + 1, #text + 1
    end
    local mark = sub(text, start, start)
    if MARKS[mark] then
        return MARKS[mark], nil, start, start + 1
    end
    if mark == '"' then
        return string_token(text, start)
    end
    for _, word in pairs(WORDS) do
        local _, last = find(text, word[1], start)
        if last then
            return word[3], word[2], start, last + 1
        end
    end
    local last = number_end(text, start)
    if last then
        return "T_NUMBER", tonumber(sub(text, start, last)), start, last + 1
    end
    _, last = find(text, "^[+-]?[iI][nN][fF][iI]?[nN]?[iI]?[tT]?[yY]?", start)
    if last then
        return "T_NUMBER", mark == "-" and -huge or huge, start, last + 1
    end
    _, last = find(text, "^[+-]?[nN][aA][nN]", start)
    if last then
        return "T_NUMBER", huge - huge, start, last + 1
    end
    return (mark == "-" or mark == "+") and "invalid number" or "invalid token", nil, start, start
end

local function expected(what, kind, start)
    return nil, "Expected " .. what .. " but found " .. kind .. " at character " .. start
end

local decode_value

local function decode_object(text, at, depth)
    local values = {}
    local kind, key, start, after = token(text, at)
    if kind == "T_OBJ_END" then
        return values, nil, after
    end
    while true do
        if kind ~= "T_STRING" then
            return expected("object key string", kind, start)
        end
        kind, _, start, after = token(text, after)
        if kind ~= "T_COLON" then
            return expected("colon", kind, start)
        end
        local value, problem
        value, problem, after = decode_value(text, depth, token(text, after))
        if problem then
            return nil, problem
        end
        values[key] = value
        kind, _, start, after = token(text, after)
        if kind == "T_OBJ_END" then
            return values, nil, after
        end
        if kind ~= "T_COMMA" then
            return expected("comma or object end", kind, start)
        end
        kind, key, start, after = token(text, after)
    end
end

local function decode_array(text, at, depth)
    local values, count = {}, 0
    local kind, item, start, after = token(text, at)
    if kind == "T_ARR_END" then
        return values, nil, after
    end
    while true do
        local value, problem
        value, problem, after = decode_value(text, depth, kind, item, start, after)
        if problem then
            return nil, problem
        end
        count = count + 1
        values[count] = value
        kind, _, start, after = token(text, after)
        if kind == "T_ARR_END" then
            return values, nil, after
        end
        if kind ~= "T_COMMA" then
            return expected("comma or array end", kind, start)
        end
        kind, item, start, after = token(text, after)
    end
end

-- Returns the value, an error text, and the index of the next token.
function decode_value(text, depth, kind, value, start, after)
    if kind == "T_STRING" or kind == "T_NUMBER" or kind == "T_BOOLEAN" or kind == "T_NULL" then
        return value, nil, after
    end
    if kind == "T_OBJ_BEGIN" or kind == "T_ARR_BEGIN" then
        if depth + 1 > DEPTH_MAX then
            return nil, "Found too many nested data structures (" .. depth + 1 .. ") at character " .. start
        end
        return (kind == "T_OBJ_BEGIN" and decode_object or decode_array)(text, after, depth + 1)
    end
    return expected("value", kind, start)
end

function cjson.decode(...)
    local text = ...
    if select("#", ...) ~= 1 then
        bad_argument("decode", 1, "expected 1 argument")
    end
    if type(text) == "number" then
        text = tostring(text)
    end
    if type(text) ~= "string" then
        bad_argument("decode", 1, "string expected, got " .. type(text))
    end
    local value, problem, after = decode_value(text, 0, token(text, 1))
    if not problem then
        local kind, _, start = token(text, after)
        if kind ~= "T_END" then
            _, problem = expected("the end", kind, start)
        end
    end
    if problem then
        fail(problem)
    end
    return value
end

return cjson
