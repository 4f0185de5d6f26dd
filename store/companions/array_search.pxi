# A search in the elements of an array, in C: see `array_search`. Included by `array_slices.pyx`.
#
# A program becomes an automaton of states, which are made when a text first needs them. A state is a set of places in
# the program and what is before the next byte of the text. The same states serve all elements, so that most bytes of
# most elements cost one look into a table.

cdef extern from *:
    """
    #define lowest_bit(bits) __builtin_ctzll(bits)
    """
    int lowest_bit(u64 bits) noexcept nogil

cdef enum:
    # As in `search_terms`.
    EXACT = 0
    MATCH = 1
    GLOB = 2
    RE = 3
    STEP_SET = 0
    STEP_FORK = 1
    STEP_JUMP = 2
    STEP_CONDITION = 3
    STEP_END = 4
    # What follows in a text: a byte, or this at its end.
    TEXT_END = 256
    FOLLOWERS = 257
    # What is before the next byte.
    BEFORE_START = 0
    BEFORE_WORD = 1
    BEFORE_OTHER = 2
    # Entries of `Automaton.follow` that are not states.
    UNKNOWN = -1
    ACCEPTED = -2
    # States that are kept at most, and the bytes that they may take, unless there are only a few.
    STATES_MAX = 512
    STATES_FIRST = 8
    STATES_SIZE_MAX = 1 << 19

cdef struct Step:
    # Where a fork or a jump continues, and where else a fork does: places in the program.
    int to
    int other
    # The bytes of a set.
    u64 members[4]
    char kind
    char condition

cdef struct Automaton:
    Step *steps
    int steps_count
    # Whether what is before a byte can make a difference.
    bint has_conditions
    # 64-bit words that hold a bit for each step.
    int words_count
    # Of each state: the steps at which a thread is before the next byte, what is before it, and what follows for each
    # byte and for the end.
    u64 *threads
    char *before
    short *follow
    int states_count
    int states_room
    int states_max
    # Used while a state is made: steps to look at, and those that were seen.
    int *waiting
    u64 *seen


cdef inline bint is_word_byte(int byte) noexcept:
    return c'0' <= byte <= c'9' or c'a' <= byte <= c'z' or c'A' <= byte <= c'Z' or byte == c'_'


cdef inline bint condition_holds(char condition, int before, int byte) noexcept:
    """Whether a condition is true between what is before a place and the byte that follows, which may be TEXT_END."""
    cdef bint is_at_end = before == BEFORE_START or byte == TEXT_END
    cdef bint is_word_before = before == BEFORE_WORD
    cdef bint is_word_after = byte != TEXT_END and is_word_byte(byte)
    if condition == c'^':
        return before == BEFORE_START
    if condition == c'$':
        return byte == TEXT_END
    # Both ends of the text are a boundary of a word, as TRE has it.
    if condition == c'<':
        return is_word_after and not is_word_before
    if condition == c'>':
        return is_word_before and not is_word_after
    if condition == c'b':
        return is_word_before != is_word_after or is_at_end
    return is_word_before == is_word_after and not is_at_end


cdef void free_automaton(Automaton *automaton) noexcept:
    if automaton != NULL:
        PyMem_Free(automaton.steps)
        PyMem_Free(automaton.threads)
        PyMem_Free(automaton.before)
        PyMem_Free(automaton.follow)
        PyMem_Free(automaton.waiting)
        PyMem_Free(automaton.seen)
        PyMem_Free(automaton)


cdef bint reserve_states(Automaton *automaton, int room) noexcept:
    """Make room for so many states. Returns whether there is memory for it."""
    cdef void *threads = PyMem_Realloc(automaton.threads, room * automaton.words_count * sizeof(u64))
    cdef void *before = PyMem_Realloc(automaton.before, room)
    cdef void *follow = PyMem_Realloc(automaton.follow, room * FOLLOWERS * sizeof(short))
    if threads != NULL:
        automaton.threads = <u64 *>threads
    if before != NULL:
        automaton.before = <char *>before
    if follow != NULL:
        automaton.follow = <short *>follow
    if threads == NULL or before == NULL or follow == NULL:
        return False
    automaton.states_room = room
    return True


cdef void forget_states(Automaton *automaton) noexcept:
    """Keep only the state at the beginning of a text."""
    automaton.states_count = 0
    memset(automaton.seen, 0, automaton.words_count * sizeof(u64))
    automaton.seen[0] = 1
    add_state(automaton, automaton.seen, BEFORE_START)


cdef int add_state(Automaton *automaton, const u64 *threads, int before) noexcept:
    """Return the state with these threads, which is made if there is none and there is room; UNKNOWN otherwise."""
    cdef size_t size = automaton.words_count * sizeof(u64)
    cdef int state
    for state in range(automaton.states_count):
        if automaton.before[state] == before:
            if not memcmp(automaton.threads + state * automaton.words_count, threads, size):
                return state
    state = automaton.states_count
    if state == automaton.states_room:
        if state == automaton.states_max or not reserve_states(automaton, min(2 * state, automaton.states_max)):
            return UNKNOWN
    memcpy(automaton.threads + state * automaton.words_count, threads, size)
    automaton.before[state] = <char>before
    # Each byte is set, so that each entry is UNKNOWN.
    memset(automaton.follow + state * FOLLOWERS, 0xFF, FOLLOWERS * sizeof(short))
    automaton.states_count += 1
    return state


cdef int follow_up(Automaton *automaton, int state, int byte) noexcept:
    """Find the state after a state and a byte, or ACCEPTED, and remember it. All other states may be forgotten."""
    cdef u64 *seen = automaton.seen
    cdef u64 *next = seen + automaton.words_count
    cdef const u64 *threads = automaton.threads + state * automaton.words_count
    cdef int before = automaton.before[state], waiting_count, word, at, found
    cdef u64 bits
    cdef Step *step
    memset(seen, 0, 2 * automaton.words_count * sizeof(u64))
    for word in range(automaton.words_count):
        bits = threads[word]
        while bits:
            automaton.waiting[0] = 64 * word + lowest_bit(bits)
            waiting_count = 1
            bits &= bits - 1
            while waiting_count:
                waiting_count -= 1
                at = automaton.waiting[waiting_count]
                if seen[at >> 6] >> (at & 63) & 1:
                    continue
                seen[at >> 6] |= <u64>1 << (at & 63)
                step = automaton.steps + at
                if step.kind == STEP_SET:
                    if byte != TEXT_END and step.members[byte >> 6] >> (byte & 63) & 1:
                        next[(at + 1) >> 6] |= <u64>1 << ((at + 1) & 63)
                elif step.kind == STEP_END:
                    automaton.follow[state * FOLLOWERS + byte] = ACCEPTED
                    return ACCEPTED
                elif step.kind == STEP_CONDITION:
                    if condition_holds(step.condition, before, byte):
                        automaton.waiting[waiting_count] = at + 1
                        waiting_count += 1
                else:
                    automaton.waiting[waiting_count] = step.to
                    waiting_count += 1
                    if step.kind == STEP_FORK:
                        automaton.waiting[waiting_count] = step.other
                        waiting_count += 1
    # A match may begin anywhere.
    next[0] |= 1
    before = BEFORE_START
    if automaton.has_conditions:
        before = BEFORE_WORD if byte != TEXT_END and is_word_byte(byte) else BEFORE_OTHER
    found = add_state(automaton, next, before)
    if found == UNKNOWN:
        forget_states(automaton)
        return add_state(automaton, next, before)
    automaton.follow[state * FOLLOWERS + byte] = <short>found
    return found


cdef bint runs_through(Automaton *automaton, const u8 *text, Py_ssize_t size) noexcept:
    """Whether a part of the text matches."""
    cdef const u8 *end = text + size
    cdef int state = 0, found
    while text < end:
        found = automaton.follow[state * FOLLOWERS + text[0]]
        if found < 0:
            if found == UNKNOWN:
                found = follow_up(automaton, state, text[0])
            if found == ACCEPTED:
                return True
        state = found
        text += 1
    found = automaton.follow[state * FOLLOWERS + TEXT_END]
    if found == UNKNOWN:
        found = follow_up(automaton, state, TEXT_END)
    return found == ACCEPTED


cdef Automaton *automaton_of(list program) except NULL:
    """Return the automaton of a program, which is to be freed."""
    cdef int count = len(program), at
    cdef size_t state_size
    cdef Step *step
    cdef bytes members
    cdef Automaton *automaton = <Automaton *>PyMem_Calloc(1, sizeof(Automaton))
    if automaton == NULL:
        raise MemoryError
    try:
        automaton.steps_count, automaton.words_count = count, (count + 63) >> 6
        automaton.steps = <Step *>PyMem_Calloc(count, sizeof(Step))
        if automaton.steps == NULL:
            raise MemoryError
        for at in range(count):
            kind, bits, to, other, condition = program[at]
            step = automaton.steps + at
            step.kind = kind
            if step.kind == STEP_SET:
                members = (<object>bits).to_bytes(32, "little")
                memcpy(step.members, PyBytes_AS_STRING(members), 32)
            elif step.kind == STEP_CONDITION:
                step.condition = PyBytes_AS_STRING(<bytes?>condition)[0]
                automaton.has_conditions = True
            else:
                step.to, step.other = at + <int>to, at + <int>other
        state_size = automaton.words_count * sizeof(u64) + 1 + FOLLOWERS * sizeof(short)
        automaton.states_max = max(min(STATES_SIZE_MAX // state_size, STATES_MAX), STATES_FIRST)
        # A fork adds one step more than it takes.
        automaton.waiting = <int *>PyMem_Malloc((count + 1) * sizeof(int))
        automaton.seen = <u64 *>PyMem_Malloc(2 * automaton.words_count * sizeof(u64))
        if automaton.waiting == NULL or automaton.seen == NULL or not reserve_states(automaton, STATES_FIRST):
            raise MemoryError
        forget_states(automaton)
    except BaseException:
        free_automaton(automaton)
        raise
    return automaton


cdef struct Predicate:
    int kind
    const char *text
    Py_ssize_t size
    # The word of the text if no other text has it, or 0.
    u64 word
    Automaton *automaton


@cython.final
cdef class ArraySearch:
    """See `array_search.ArraySearch`."""

    cdef Predicate *predicates
    cdef int count
    cdef bint needs_all
    cdef bint ignores_case
    # The texts to which predicates refer.
    cdef list texts
    # An element in lower case.
    cdef char *lowered_text
    cdef Py_ssize_t lowered_room

    def __init__(self, list predicates not None, bint needs_all, bint ignores_case):
        cdef Predicate *predicate
        cdef bytes text
        self.needs_all, self.ignores_case, self.texts = needs_all, ignores_case, []
        self.predicates = <Predicate *>PyMem_Calloc(len(predicates), sizeof(Predicate))
        if self.predicates == NULL:
            raise MemoryError
        for kind, given, program in predicates:
            text = given.lower() if ignores_case and (kind == EXACT or kind == MATCH) else given
            self.texts.append(text)
            predicate = self.predicates + self.count
            predicate.kind, predicate.text, predicate.size = kind, PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text)
            predicate.word = 0 if ignores_case else plain_word_of(predicate.text, predicate.size)
            if kind == RE:
                predicate.automaton = automaton_of(program)
            self.count += 1

    def __dealloc__(self):
        cdef int at
        for at in range(self.count):
            free_automaton(self.predicates[at].automaton)
        PyMem_Free(self.predicates)
        PyMem_Free(self.lowered_text)

    def accepts(self, bytes text not None):
        """See `array_search`."""
        return bool(self.accepts_text(PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text)))

    cdef int accepts_word(self, u64 word) except -1:
        """Return whether the element of a word matches."""
        cdef char digits[NUMBER_SIZE_MAX]
        cdef const char *text = NULL
        cdef Py_ssize_t size
        if self.count == 1 and self.predicates.kind == EXACT and self.predicates.word:
            return word == self.predicates.word
        size = view(word, digits, &text)
        return self.accepts_text(text, size)

    cdef int accepts_text(self, const char *text, Py_ssize_t size) except -1:
        """Return whether an element matches one predicate, or all of them."""
        cdef int at
        cdef bint is_accepted
        # What is compared. Regular expressions and globs see the element as it is.
        cdef const char *compared = NULL if self.ignores_case else text
        cdef Predicate *predicate
        for at in range(self.count):
            predicate = self.predicates + at
            if predicate.kind == RE:
                is_accepted = runs_through(predicate.automaton, <const u8 *>text, size)
            elif predicate.kind == GLOB:
                is_accepted = is_match(
                    <Place>predicate.text, <Place>predicate.text + predicate.size,
                    <Place>text, <Place>text + size, self.ignores_case,
                )
            elif size < predicate.size or (predicate.kind == EXACT and size > predicate.size):
                is_accepted = False
            else:
                if compared == NULL:
                    compared = self.lower(text, size)
                if predicate.kind == EXACT:
                    is_accepted = not memcmp(compared, predicate.text, size)
                else:
                    is_accepted = not predicate.size or memmem(compared, size, predicate.text, predicate.size) != NULL
            if is_accepted != self.needs_all:
                return is_accepted
        return self.needs_all

    cdef const char *lower(self, const char *text, Py_ssize_t size) except NULL:
        """Return an element in lower case."""
        cdef char *lowered_text
        cdef Py_ssize_t at
        if size >= self.lowered_room:
            lowered_text = <char *>PyMem_Realloc(self.lowered_text, 2 * size + NUMBER_SIZE_MAX)
            if lowered_text == NULL:
                raise MemoryError
            self.lowered_text, self.lowered_room = lowered_text, 2 * size + NUMBER_SIZE_MAX
        for at in range(size):
            self.lowered_text[at] = <char>lowered(text[at])
        return self.lowered_text
