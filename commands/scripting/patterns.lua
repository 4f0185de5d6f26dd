-- Lua's patterns, implemented in Lua, for searches that may take too long in C, where no hook interrupts them and each
-- quantifier uses the C stack. Results and errors are those of Lua 5.1. Part of the sandbox.
local fail = ...
local byte, char, find, sub = string.byte, string.char, string.find, string.sub
local concat = table.concat

local CAPTURES_MAX = 32
-- Maximum nesting of quantifiers and captures in one match; the stack of Lua has room for 20000 calls.
local DEPTH_MAX = 4000
-- Maximum number of steps of a search in C in the worst case, about 0.1 s.
local STEPS_MAX = 1e7
-- Maximum number of patterns whose cost is cached,
local KNOWN_MAX = 200
-- and the maximum size of each.
local KNOWN_SIZE_MAX = 200
local UNFINISHED, POSITION = -1, -2

local DOLLAR, PERCENT, OPEN, CLOSE, STAR, PLUS, MINUS, DOT, QUESTION = byte("$%()*+-.?", 1, -1)
local BRACKET, END_BRACKET, CARET, ZERO, NINE, LOWER_B, LOWER_F = byte("[]^09bf", 1, -1)

-- Returns the index after the single character class at `at`, or nil and an error text. A zero byte ends a pattern.
local function class_end(pattern, at)
    local mark = byte(pattern, at)
    at = at + 1
    if mark == PERCENT then
        if (byte(pattern, at) or 0) == 0 then
            return nil, "malformed pattern (ends with '%')"
        end
        return at + 1
    end
    if mark ~= BRACKET then
        return at
    end
    if byte(pattern, at) == CARET then
        at = at + 1
    end
    repeat
        mark = byte(pattern, at) or 0
        if mark == 0 then
            return nil, "malformed pattern (missing ']')"
        end
        at = at + 1
        if mark == PERCENT and (byte(pattern, at) or 0) ~= 0 then
            at = at + 1
        end
    until byte(pattern, at) == END_BRACKET
    return at + 1
end

local function checked_class_end(pattern, at)
    local after, problem = class_end(pattern, at)
    if not after then
        fail(problem)
    end
    return after
end

-- Cost ------------------------------------------------------------------------------------------

-- Returns `degree` and `factor` of a pattern: a search costs `factor` times the size of the text to the power `degree`.
-- Returns nil if the pattern is malformed or has items whose cost is not estimated.
local function measured(pattern)
    local items, count, capture_count, open_count = {}, 0, 0, 0
    local is_anchored = byte(pattern) == CARET
    local at, factor = is_anchored and 2 or 1, 1
    while at <= #pattern do
        local mark, following = byte(pattern, at, at + 1)
        count = count + 1
        if mark == 0 then
            return nil
        elseif mark == OPEN then
            items[count], at, capture_count = "capture", at + 1, capture_count + 1
            if following == CLOSE then
                at = at + 1
            else
                open_count = open_count + 1
            end
        elseif mark == CLOSE then
            items[count], at, open_count = "capture", at + 1, open_count - 1
            if open_count < 0 then
                return nil
            end
        elseif mark == DOLLAR and at == #pattern then
            items[count], at = "single", at + 1
        elseif mark == PERCENT and following and find(pattern, "^[bf%d]", at + 1) then
            return nil
        else
            local after = class_end(pattern, at)
            if not after then
                return nil
            end
            local quantifier = byte(pattern, after)
            if quantifier == STAR or quantifier == MINUS then
                items[count], at = "any", after + 1
            elseif quantifier == PLUS then
                items[count], at = "some", after + 1
            elseif quantifier == QUESTION then
                items[count], at = "option", after + 1
            else
                items[count], at = "single", after
            end
        end
    end
    if open_count > 0 or capture_count > CAPTURES_MAX then
        return nil
    end
    local degree, may_fail = is_anchored and 0 or 1, false
    -- A quantifier backtracks if the rest of the pattern can fail.
    for index = count, 1, -1 do
        local item = items[index]
        if item == "any" or item == "some" then
            degree = degree + (may_fail and 1 or 0)
        elseif item == "option" then
            factor = factor * (may_fail and 2 or 1)
        end
        may_fail = may_fail or item == "some" or item == "single"
    end
    return { degree = degree > 0 and degree or 1, factor = factor * (1 + #pattern / 8) }
end

local known, known_count = {}, 0

-- Whether the search is cheap enough for Lua's own functions in C.
local function is_cheap(text, pattern)
    local cost = known[pattern]
    if cost == nil then
        if #pattern > KNOWN_SIZE_MAX then
            return false
        end
        if known_count == KNOWN_MAX then
            known, known_count = {}, 0
        end
        cost = measured(pattern) or false
        known[pattern], known_count = cost, known_count + 1
    end
    return cost and (#text + 1) ^ cost.degree * cost.factor <= STEPS_MAX
end

-- Matching --------------------------------------------------------------------------------------

-- A search has the subject `text`, the pattern, the captures of the present match, and a cache of classes.
local function new_search(text, pattern)
    return { text = text, size = #text, pattern = pattern, level = 0, depth = 0, starts = {}, sizes = {}, classes = {} }
end

-- Whether a byte is in the character class between two indexes of the pattern.
local function is_in(search, mark, at, after)
    local pattern = search.pattern
    local class = byte(pattern, at)
    if class == DOT then
        return true
    elseif class ~= PERCENT and class ~= BRACKET then
        return class == mark
    end
    local seen = search.classes[at]
    if not seen then
        seen = { text = "^" .. sub(pattern, at, after - 1) }
        search.classes[at] = seen
    end
    local found = seen[mark]
    if found == nil then
        found = find(char(mark), seen.text) ~= nil
        seen[mark] = found
    end
    return found
end

local match_at

-- Matches from here on, one level deeper.
local function deeper(search, place, at)
    local depth = search.depth
    if depth == DEPTH_MAX then
        fail("pattern too complex")
    end
    search.depth = depth + 1
    local found = match_at(search, place, at)
    search.depth = depth
    return found
end

local function match_longest(search, place, at, after)
    local text, size, count = search.text, search.size, 0
    while place + count <= size and is_in(search, byte(text, place + count), at, after) do
        count = count + 1
    end
    while count >= 0 do
        local found = deeper(search, place + count, after + 1)
        if found then
            return found
        end
        count = count - 1
    end
    return nil
end

local function match_shortest(search, place, at, after)
    while true do
        local found = deeper(search, place, after + 1)
        if found then
            return found
        end
        if place > search.size or not is_in(search, byte(search.text, place), at, after) then
            return nil
        end
        place = place + 1
    end
end

local function open_capture(search, place, at, size)
    local level = search.level + 1
    if level > CAPTURES_MAX then
        fail("too many captures")
    end
    search.starts[level], search.sizes[level], search.level = place, size, level
    local found = deeper(search, place, at)
    if not found then
        search.level = search.level - 1
    end
    return found
end

local function close_capture(search, place, at)
    local level = search.level
    while level > 0 and search.sizes[level] ~= UNFINISHED do
        level = level - 1
    end
    if level == 0 then
        fail("invalid pattern capture")
    end
    search.sizes[level] = place - search.starts[level]
    local found = deeper(search, place, at)
    if not found then
        search.sizes[level] = UNFINISHED
    end
    return found
end

local function match_balanced(search, place, at)
    local text, opening, closing = search.text, byte(search.pattern, at, at + 1)
    if (opening or 0) == 0 or (closing or 0) == 0 then
        fail("unbalanced pattern")
    end
    if byte(text, place) ~= opening then
        return nil
    end
    local open_count = 1
    for index = place + 1, search.size do
        local mark = byte(text, index)
        if mark == closing then
            open_count = open_count - 1
            if open_count == 0 then
                return index + 1
            end
        elseif mark == opening then
            open_count = open_count + 1
        end
    end
    return nil
end

-- Matches the text of a capture again.
local function match_again(search, place, digit)
    local level = digit - ZERO
    local size = search.sizes[level]
    if level < 1 or level > search.level or size == UNFINISHED then
        fail("invalid capture index")
    end
    if size == POSITION or search.size - place + 1 < size then
        return nil
    end
    local start, text = search.starts[level], search.text
    return sub(text, start, start + size - 1) == sub(text, place, place + size - 1) and place + size or nil
end

-- Returns the index after a match of the pattern from `at`; nil if there is none.
function match_at(search, place, at)
    local text, pattern, size = search.text, search.pattern, search.size
    while true do
        local mark = byte(pattern, at) or 0
        local following = byte(pattern, at + 1) or 0
        local takes_fast_path = false
        if mark == 0 then
            return place
        elseif mark == OPEN then
            if following == CLOSE then
                return open_capture(search, place, at + 2, POSITION)
            end
            return open_capture(search, place, at + 1, UNFINISHED)
        elseif mark == CLOSE then
            return close_capture(search, place, at + 1)
        elseif mark == PERCENT and following == LOWER_B then
            place = match_balanced(search, place, at + 2)
            at = at + 4
        elseif mark == PERCENT and following == LOWER_F then
            at = at + 2
            if byte(pattern, at) ~= BRACKET then
                fail("missing '[' after '%f' in pattern")
            end
            local after = checked_class_end(pattern, at)
            local before, mark_here = byte(text, place - 1) or 0, byte(text, place) or 0
            if is_in(search, before, at, after) or not is_in(search, mark_here, at, after) then
                return nil
            end
            at = after
        elseif mark == PERCENT and following >= ZERO and following <= NINE then
            place = match_again(search, place, following)
            at = at + 2
        elseif mark == DOLLAR and following == 0 then
            return place > size and place or nil
        else
            takes_fast_path = true
        end
        if not place then
            return nil
        end
        if takes_fast_path then
            local after = checked_class_end(pattern, at)
            local quantifier = byte(pattern, after)
            if quantifier == STAR then
                return match_longest(search, place, at, after)
            elseif quantifier == MINUS then
                return match_shortest(search, place, at, after)
            end
            local is_matched = place <= size and is_in(search, byte(text, place), at, after)
            if quantifier == PLUS then
                return is_matched and match_longest(search, place + 1, at, after) or nil
            elseif quantifier == QUESTION then
                local found = is_matched and deeper(search, place + 1, after + 1)
                if found then
                    return found
                end
                at = after + 1
            elseif is_matched then
                place, at = place + 1, after
            else
                return nil
            end
        end
    end
end

-- Returns the captures of the match.
local function captures(search)
    local values = {}
    for level = 1, search.level do
        local start, size = search.starts[level], search.sizes[level]
        if size == UNFINISHED then
            fail("unfinished capture")
        end
        values[level] = size == POSITION and start or sub(search.text, start, start + size - 1)
    end
    return values
end

-- Returns a function that finds the first match from an index on, and returns its begin, its end and its captures.
-- With `is_literal`, a `^` at the beginning is an ordinary character.
local function searcher(text, pattern, is_literal)
    local search = new_search(text, pattern)
    local is_anchored = byte(pattern) == CARET and not is_literal
    return function(init)
        for place = init, is_anchored and init or #text + 1 do
            search.level, search.depth = 0, 0
            local after = match_at(search, place, is_anchored and 2 or 1)
            if after then
                return place, after - 1, captures(search)
            end
        end
        return nil
    end
end

return { is_cheap = is_cheap, searcher = searcher }
