# Compiled types of dead_letters.py.

cimport cython

from amqp_router.protocol cimport flags
from amqp_router.protocol.message cimport Extras, Message
from persistence.log.queue.epochs cimport LogEpochs
from persistence.log.queue.queue_log cimport QueueLog
from persistence.memory cimport MemoryBudget
from vhosts.counters cimport ExchangeCounters
from vhosts.exchanges.route cimport Route
from vhosts.exchanges.router cimport RouteCache, RoutingTable
from vhosts.exchanges.walk cimport Walk
from vhosts.letter cimport Address, Letter, Sender, Sift, letter_of
from vhosts.publishing.ports cimport Run
from vhosts.publishing.publisher cimport Publisher
from vhosts.queues.death cimport Death
from vhosts.queues.handle cimport QueueHandle
from vhosts.queues.mortal cimport MortalQueue
from vhosts.spread_map cimport SpreadMap
from vhosts.waiting_letters cimport WaitingRoom

cdef unsigned int _NOT_TAKEN
cdef unsigned int _WAITS
cdef int _WAKE_SLICE
cdef unsigned int _UNFINISHED


cdef class DeadLetters(Sender):
    cdef RoutingTable _table
    cdef MemoryBudget _account
    cdef RouteCache _cache
    cdef Publisher _publisher
    cdef public list _letters
    cdef Py_ssize_t _spent
    cdef public dict _unsafe
    cdef unsigned long long _next_number
    cdef ExchangeCounters _uncounted
    cdef bint _is_sending
    cdef Py_ssize_t _units
    cdef Death _death
    cdef Address _address
    cdef str _source_of
    cdef bytes _source
    cdef SpreadMap _queues
    cdef list _next
    cdef bint _is_waking
    cdef public WaitingRoom waiting
    cdef public unsigned long long dropped_total
    cpdef Py_ssize_t count(self) except -1
    @cython.locals(letter=Letter, waits=bint)
    cpdef add(self, queue, Message message, str reason)
    @cython.locals(letters=list, letter=Letter, route=Route, units=Py_ssize_t)
    cpdef bint _send_some(self) except -1
    @cython.locals(walk=Walk, route=Route)
    cdef Route _route(self, Letter letter)
    cdef Route _sifted(self, Letter letter, Sift sift)
    @cython.locals(queue=MortalQueue, message=Message, death=Death, made=Message, exchange=str)
    cdef bint _prepare(self, Letter letter) except -1
    @cython.locals(queue=MortalQueue, message=Message, death=Death, exchange=str, key=str, time_s="long long", is_known=bint)
    cdef Death _death_of(self, Letter letter)
    @cython.locals(queue=MortalQueue, message=Message, made=Message, extras=Extras, log=QueueLog, epochs=LogEpochs)
    cdef bint _note_source(self, Letter letter) except -1
    @cython.locals(made=Message, number="unsigned long long", single=QueueHandle, outcome="unsigned int", refusers=list)
    cdef _publish(self, Letter letter, Route route)
    @cython.locals(run=Run, queue=QueueHandle)
    cdef _await(self, Letter letter, list durable)
    cdef _done(self, Letter letter, unsigned int outcome)
    cdef _refused(self, Letter letter, QueueHandle refuser)
    @cython.locals(queue=MortalQueue)
    cdef _settle(self, Letter letter, bint stays)
    cdef _make_room(self)
    cpdef bint _wake_some(self) except -1
    @cython.locals(letter=Letter)
    cpdef published(self, unsigned long long number, unsigned int outcome, Message message)
    @cython.locals(number="unsigned long long", letter=Letter)
    cpdef run_done(self, Run run)


@cython.locals(address=Address)
cdef Address _address(str exchange, str key, Death death)
@cython.locals(single=QueueHandle, death=Death)
cdef bint _is_free(Letter letter, Route route) except -1
cdef bint _has_further_keys(Letter letter) except -1
