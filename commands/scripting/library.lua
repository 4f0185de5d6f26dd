-- Safe versions of library functions of which one call could take minutes, fill the memory or corrupt it: Lua 5.1.5
-- lacks the fixes of Redis. For large arguments each function checks the time limit, and work that cannot be
-- interrupted in C is done in Lua. Results and errors are those of Redis. Part of the sandbox.
local host = ...
local fail, bad_argument, watch, memory_size_max = host.fail, host.bad_argument, host.watch, host.memory_size_max
local fronts, READONLY = host.fronts, host.readonly
local is_cheap, searcher = host.patterns.is_cheap, host.patterns.searcher
local type, tostring, tonumber, select, error, pcall, pairs = type, tostring, tonumber, select, error, pcall, pairs
local rawget, rawset, unpack = rawget, rawset, unpack
local byte, char, find, format, gmatch = string.byte, string.char, string.find, string.format, string.gmatch
local gsub, match, rep, sub = string.gsub, string.match, string.rep, string.sub
local concat, ceil, floor = table.concat, math.ceil, math.floor

local CARET = byte("^")
-- Bytes of a string, or elements of a table, from which on the time limit is checked.
local LARGE_SIZE = 65536
-- Maximum number of arguments and results of a C function.
local RESULTS_COUNT_MAX = 8000
-- Maximum number of elements that C sorts fast in the worst case.
local SORTED_COUNT_MAX = 4096
-- Maximum number of bytes that one plain search in C may compare.
local PLAIN_STEPS_MAX = 5e8
local OUT_OF_MEMORY = "not enough memory"

-- Converts a double to an int as C does.
local function as_int(number)
    number = number < 0 and ceil(number) or floor(number)
    if number ~= number or number >= 2 ^ 63 or number <= -2 ^ 63 then
        return 0
    end
    return (number + 2 ^ 31) % 2 ^ 32 - 2 ^ 31
end

-- Raises the error of a protected call of a C function, as if a script had called it.
local function raise(name, problem)
    if problem == OUT_OF_MEMORY or type(problem) ~= "string" then
        error(problem, 0)
    end
    local index, text = match(problem, "^bad argument #(%-?%d+) to '%?' %((.*)%)$")
    if index then
        bad_argument(name, tonumber(index), text)
    end
    fail(problem)
end

-- Wraps a function with one result, so that errors name it and a large result is followed by a check of the time.
local function guarded(name, action)
    return function(...)
        local ok, value = pcall(action, ...)
        if not ok then
            raise(name, value)
        end
        if type(value) == "string" and #value > LARGE_SIZE then
            watch()
        end
        return value
    end
end

local function text_argument(name, index, count, value)
    local kind = type(value)
    if kind == "string" then
        return value
    elseif kind ~= "number" then
        bad_argument(name, index, "string expected, got " .. (index > count and "no value" or kind))
    end
    return tostring(value)
end

local function int_argument(name, index, value)
    local number = tonumber(value)
    if not number then
        bad_argument(name, index, "number expected, got " .. type(value))
    end
    return as_int(number)
end

-- Strings ---------------------------------------------------------------------------------------

local strings = { byte = byte, char = char, len = string.len, sub = sub }

for name, action in pairs({ format = format, lower = string.lower, reverse = string.reverse, upper = string.upper }) do
    strings[name] = guarded(name, action)
end

local checked_rep = guarded("rep", rep)

function strings.rep(...)
    local text, count = ...
    if (type(text) == "string" or type(text) == "number") and tonumber(count) then
        local size = #tostring(text)
        if size == 0 then
            return ""
        elseif size * as_int(tonumber(count)) > memory_size_max then
            error(OUT_OF_MEMORY, 0)
        end
    end
    local value = checked_rep(...)
    return value
end

local function text_and_pattern(name, ...)
    local count = select("#", ...)
    local text, pattern = ...
    return text_argument(name, 1, count, text), text_argument(name, 2, count, pattern)
end

-- Returns the index at which a search begins.
local function start_of(name, text, init)
    if init == nil then
        return 1
    end
    init = int_argument(name, 3, init)
    if init < 0 then
        init = #text + init + 1
    end
    return init < 1 and 1 or init > #text + 1 and #text + 1 or init
end

-- Finds a literal text, in pieces that C compares fast.
local function find_plain(text, wanted, init)
    local step = floor(PLAIN_STEPS_MAX / (#wanted + 16)) + 1
    for start = init, #text - #wanted + 1, step do
        local first, last = find(sub(text, start, start + step + #wanted - 2), wanted, 1, true)
        if first then
            return first + start - 1, last + start - 1
        end
        watch()
    end
    return nil
end

-- Whether a pattern has special characters before its first zero byte, where C ends it.
local function has_specials(pattern)
    return find(match(pattern, "^%Z*"), "[%^%$%*%+%?%.%(%[%%%-]")
end

function strings.find(...)
    local text, pattern = text_and_pattern("find", ...)
    local _, _, init, takes_fast_path = ...
    init = start_of("find", text, init)
    if takes_fast_path or not has_specials(pattern) then
        if #pattern > 0 and (#text + 1) * (#pattern + 16) > PLAIN_STEPS_MAX then
            return find_plain(text, pattern, init)
        end
        return find(text, pattern, init, true)
    end
    if is_cheap(text, pattern) then
        return find(text, pattern, init)
    end
    local first, last, captures = searcher(text, pattern)(init)
    if first then
        return first, last, unpack(captures)
    end
    return nil
end

function strings.match(...)
    local text, pattern = text_and_pattern("match", ...)
    local _, _, init = ...
    init = start_of("match", text, init)
    if is_cheap(text, pattern) then
        return match(text, pattern, init)
    end
    local first, last, captures = searcher(text, pattern)(init)
    if not first then
        return nil
    elseif captures[1] == nil then
        return sub(text, first, last)
    end
    return unpack(captures)
end

function strings.gmatch(...)
    local text, pattern = text_and_pattern("gmatch", ...)
    if byte(pattern) ~= CARET and is_cheap(text, pattern) then
        return gmatch(text, pattern)
    end
    local search, place = searcher(text, pattern, true), 1
    return function()
        local first, last, captures = search(place)
        if not first then
            return nil
        end
        place = last < first and first + 1 or last + 1
        if captures[1] == nil then
            return sub(text, first, last)
        end
        return unpack(captures)
    end
end

strings.gfind = strings.gmatch

local function found(first, last, ...)
    return first, last, { ... }
end

local function cheap_searcher(text, pattern)
    return function(init) return found(find(text, pattern, init)) end
end

-- Returns the replacement of one match, from a string, a table or a function.
local function replacer(replacement)
    local kind = type(replacement)
    if kind == "table" then
        return function(whole, captures) return replacement[captures[1] or whole] end
    elseif kind == "function" then
        return function(whole, captures)
            if captures[1] == nil then
                return (replacement(whole))
            end
            return (replacement(unpack(captures)))
        end
    end
    local template = tostring(replacement)
    return function(whole, captures)
        local pieces, at = {}, 1
        while true do
            local mark = find(template, "%", at, true)
            if not mark then
                pieces[#pieces + 1] = sub(template, at)
                return concat(pieces)
            end
            local following = sub(template, mark + 1, mark + 1)
            local level = find(following, "^%d") and tonumber(following)
            pieces[#pieces + 1] = sub(template, at, mark - 1)
            if not level then
                pieces[#pieces + 1] = following == "" and "\0" or following
            elseif level == 0 or level == 1 and captures[1] == nil then
                pieces[#pieces + 1] = whole
            else
                pieces[#pieces + 1] = captures[level] or fail("invalid capture index")
            end
            at = mark + 2
        end
    end
end

function strings.gsub(...)
    local text, pattern = text_and_pattern("gsub", ...)
    local _, _, replacement, count_max = ...
    count_max = count_max == nil and #text + 1 or int_argument("gsub", 4, count_max)
    local kind = type(replacement)
    if kind ~= "string" and kind ~= "number" and kind ~= "table" and kind ~= "function" then
        bad_argument("gsub", 3, "string/function/table expected")
    end
    local is_quick = is_cheap(text, pattern)
    if is_quick and (kind == "string" or kind == "number") then
        local ok, value, count = pcall(gsub, text, pattern, replacement, count_max)
        if not ok then
            raise("gsub", value)
        elseif #text > LARGE_SIZE then
            watch()
        end
        return value, count
    end
    local search = is_quick and cheap_searcher(text, pattern) or searcher(text, pattern)
    local replaced, is_anchored = replacer(replacement), byte(pattern) == CARET
    -- `kept` is the index of the text that is not yet in `pieces`.
    local pieces, count, place, kept = {}, 0, 1, 1
    while count < count_max do
        local first, last, captures = search(place)
        if not first then
            break
        end
        count = count + 1
        local whole = sub(text, first, last)
        local value = replaced(whole, captures)
        if not value then
            value = whole
        elseif type(value) ~= "string" and type(value) ~= "number" then
            fail("invalid replacement value (a " .. type(value) .. ")")
        end
        pieces[#pieces + 1] = sub(text, kept, first - 1)
        pieces[#pieces + 1] = value
        kept = last + 1
        place = last < first and first + 1 or last + 1
        if is_anchored or place > #text + 1 then
            break
        end
    end
    pieces[#pieces + 1] = sub(text, kept)
    return concat(pieces), count
end

-- Tables ----------------------------------------------------------------------------------------

local tables = { foreachi = table.foreachi, getn = table.getn, setn = table.setn }
local raw_foreach = table.foreach

function tables.foreach(...)
    local values, action = ...
    local count = select("#", ...)
    if type(values) ~= "table" then
        bad_argument("foreach", 1, "table expected, got " .. (count == 0 and "no value" or type(values)))
    elseif type(action) ~= "function" then
        bad_argument("foreach", 2, "function expected, got " .. (count < 2 and "no value" or type(action)))
    end
    return raw_foreach(fronts[values] or values, action)
end

for name, action in pairs({ concat = concat, maxn = table.maxn }) do
    local checked = guarded(name, action)
    tables[name] = function(...)
        local value = checked(...)
        watch()
        return value
    end
end

local checked_insert, checked_remove = guarded("insert", table.insert), guarded("remove", table.remove)

function tables.insert(...)
    local values, position, value = ...
    local argument_count = select("#", ...)
    if fronts[values] and (argument_count == 2 or argument_count == 3 and tonumber(position)) then
        error(READONLY, 0)
    end
    if argument_count == 3 and type(values) == "table" and tonumber(position) then
        position = as_int(tonumber(position))
        local count = #values + 1
        if count - position > LARGE_SIZE then
            for index = count, position + 1, -1 do
                rawset(values, index, rawget(values, index - 1))
            end
            rawset(values, position, value)
            return
        end
    end
    checked_insert(...)
end

function tables.remove(...)
    local values, position = ...
    if type(values) == "table" and (position == nil or tonumber(position)) then
        local count = #values
        position = position == nil and count or as_int(tonumber(position))
        if position < 1 or position > count then
            return
        end
        if count - position > LARGE_SIZE then
            local value = rawget(values, position)
            for index = position, count - 1 do
                rawset(values, index, rawget(values, index + 1))
            end
            rawset(values, count, nil)
            return value
        end
    end
    local value = checked_remove(...)
    return value
end

local function swap(values, first, second)
    local value = rawget(values, first)
    rawset(values, first, rawget(values, second))
    rawset(values, second, value)
end

-- The quicksort of Lua 5.1, with an equal order of equal elements and equal errors for an invalid `is_less`.
local function sort_range(values, low, high, is_less)
    while low < high do
        if is_less(rawget(values, high), rawget(values, low)) then
            swap(values, low, high)
        end
        if high - low == 1 then
            return
        end
        local middle = floor((low + high) / 2)
        if is_less(rawget(values, middle), rawget(values, low)) then
            swap(values, middle, low)
        elseif is_less(rawget(values, high), rawget(values, middle)) then
            swap(values, middle, high)
        end
        if high - low == 2 then
            return
        end
        local pivot = rawget(values, middle)
        swap(values, middle, high - 1)
        local left, right = low, high - 1
        while true do
            left = left + 1
            while is_less(rawget(values, left), pivot) do
                if left > high then
                    fail("invalid order function for sorting")
                end
                left = left + 1
            end
            right = right - 1
            while is_less(pivot, rawget(values, right)) do
                if right < low then
                    fail("invalid order function for sorting")
                end
                right = right - 1
            end
            if right < left then
                break
            end
            swap(values, left, right)
        end
        swap(values, high - 1, left)
        if left - low < high - left then
            sort_range(values, low, left - 1, is_less)
            low = left + 1
        else
            sort_range(values, left + 1, high, is_less)
            high = left - 1
        end
    end
end

local function is_below(first, second)
    return first < second
end

local raw_sort = table.sort

function tables.sort(...)
    local values, is_less = ...
    if type(values) == "table" and type(is_less) == "function" then
        sort_range(values, 1, #values, is_less)
    elseif type(values) == "table" and is_less == nil and #values > SORTED_COUNT_MAX then
        local ok, problem = pcall(sort_range, values, 1, #values, is_below)
        if not ok then -- C adds no place to errors of comparisons
            error(type(problem) == "string" and gsub(problem, "^sandbox:%d+: ", "") or problem, 0)
        end
    else
        local ok, problem = pcall(raw_sort, ...)
        if not ok and type(problem) == "string" and find(problem, "^[bi][an][dv]") then -- "bad argument", "invalid order"
            raise("sort", problem)
        elseif not ok then
            error(problem, 0)
        end
    end
end

-- Results on the stack --------------------------------------------------------------------------

local checked_unpack = guarded("unpack", unpack)

local function unpack_checked(...)
    local values, first, last = ...
    if type(values) ~= "table" or first ~= nil and not tonumber(first) or last ~= nil and not tonumber(last) then
        checked_unpack(...)
    end
    first = first == nil and 1 or as_int(tonumber(first))
    last = last == nil and #values or as_int(tonumber(last))
    if first <= last and last - first + 1 + select("#", ...) > RESULTS_COUNT_MAX then
        fail("too many results to unpack")
    end
    return unpack(...)
end

return { string = strings, table = tables, unpack = unpack_checked, as_int = as_int }
