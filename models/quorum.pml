/*
 * quorum.pml: a lock over N independent servers, each of which may lose all its data at any moment.
 * A lease is held while its holds at a majority are; its fence is above those of all earlier leases.
 *
 * Mirrors node_acquire.lua, node_fence.lua, node_counter.lua, node_raise.lua and the quarantine
 * of incarnation.lua; bid.round and elect, Quorum.agree, refillNode and repair, JointLease.errAt
 * and add.
 * README.md says what is left out, and what each BREAK_ macro breaks.
 */

#ifndef N
#define N 3		/* nodes */
#endif
#ifndef CLIENTS
#define CLIENTS 2
#endif
#ifndef TOP
#define TOP 4		/* what a node's counter reaches */
#endif
#ifndef LOSSES
#define LOSSES 1	/* of the data of a node */
#endif
#ifndef FLUSHES
#define FLUSHES 0	/* of these, how many without a restart */
#endif
#ifndef LATE
#define LATE (LOSSES > 1)	/* whether a raise may come late: after another loss */
#endif
#ifndef FENCES
#define FENCES 1	/* whether fences have to rise */
#endif

#ifdef BREAK_HALF
#define NEED (N / 2)
#else
#define NEED (N / 2 + 1)
#endif
#ifdef BREAK_READ_FROM_ONE
#define OTHERS 1
#else
#define OTHERS ((N - 1) / 2 + 1)	/* that tell a node its counter */
#endif

#define FREE	CLIENTS
mtype = { serving, quarantined, behind };	/* nodes */
mtype = { asking, raising, holding };		/* clients */

/* The nodes. The lock of a token that is over counts as free. Until it is, it only keeps others
 * from being granted the node, and they need not ask anyway. */
byte owner[N] = FREE;
byte counter[N];
mtype state[N] = serving;
byte mark[N];			/* the loss that it was told of, and must be caught up after */

/* The clients. What a client has at a node is a hold of its own, of the present attempt: held while it is
 * granted and not over (internal/engine/hold.go). */
typedef part {
	bool granted;		/* it was granted, and the answer was read */
	bool over;		/* its deadline has passed since */
	byte fence		/* that the node knows; up to the lease's */
}
part at[CLIENTS * N];
#define PART(C, X)	at[(C) * N + (X)]
mtype stage[CLIENTS] = asking;
byte fence[CLIENTS];		/* to be known by a majority */

/* The client that mends a node which is behind; and a late raise of its. */
bool target[N], mending;	/* the node */
bool told[N];			/* others that told it their counters */
byte target_mark, best;		/* the highest of them */
bool late_target[N], late;
byte late_mark, late_best;

byte last;			/* the fence of the latest lease */
byte losses, flushes;

byte i, k, low, sum;
mtype kind = serving;

bool one_holder = true;
bool fences_rise = true;

/* count sets sum: how many parts of C are held. */
inline count(C) {
	sum = 0;
	for (i : 0 .. N - 1) {
		sum = sum + (PART(C, i).granted && !PART(C, i).over)
	}
}

/*
 * Nodes are alike, and so are clients: of states that differ only in their names, one is visited.
 * NAMED keeps the names, for stories.
 */
#define KEY(C, X)	(((PART(C, X).granted * 2 + PART(C, X).over) << 4) + PART(C, X).fence)
#define key(X)		((KEY(0, X) << 24) + (KEY(1, X) << 18) + (owner[X] << 16) + (state[X] << 14) + (counter[X] << 10) + \
			 (mark[X] << 6) + (target[X] << 4) + (told[X] << 3) + (late_target[X] << 2))
inline exchange(A, B)	{ k = A; A = B; B = k }
inline exchange_parts(I, J) {
	exchange(at[I].granted, at[J].granted);
	exchange(at[I].over, at[J].over);
	exchange(at[I].fence, at[J].fence)
}
inline order(X, Y) {
	if
	:: key(X) > key(Y) ->
		exchange_parts(X, Y);
		exchange_parts(N + X, N + Y);
		exchange(owner[X], owner[Y]);
		exchange(counter[X], counter[Y]);
		kind = state[X]; state[X] = state[Y]; state[Y] = kind;
		exchange(mark[X], mark[Y]);
		exchange(target[X], target[Y]);
		exchange(told[X], told[Y]);
		exchange(late_target[X], late_target[Y])
	:: else
	fi
}
inline sort() {
	if
	:: stage[0] > stage[1] || stage[0] == stage[1] && fence[0] > fence[1] ->
		kind = stage[0]; stage[0] = stage[1]; stage[1] = kind;
		exchange(fence[0], fence[1]);
		for (i : 0 .. N - 1) {
			exchange_parts(i, N + i);
			owner[i] = (owner[i] == FREE -> FREE : 1 - owner[i])
		}
	:: else
	fi;
	for (low : 1 .. N - 1) {
		for (i : 0 .. N - 1 - low) {
			order(i, i + 1)
		}
	}
	kind = serving
}

inline check() {
	k = 0;
	for (low : 0 .. CLIENTS - 1) {
		count(low);
		k = k + (stage[low] == holding && sum >= NEED)
	}
	one_holder = k <= 1;
	assert(one_holder);
#ifndef NAMED
	sort();
#endif
	i = 0; k = 0; low = 0; sum = 0
}

/* let gives up C's part at X. */
inline let(C, X) {
	PART(C, X).granted = false; PART(C, X).over = false; PART(C, X).fence = 0;
	owner[X] = (owner[X] == C -> FREE : owner[X])
}

inline leave(C) {
	for (i : 0 .. N - 1) {
		let(C, i)
	}
	stage[C] = asking; fence[C] = 0
}

/* agree sets low to the NEED-th smallest fence of C's parts, and sum to how many know it. */
inline agree(C) {
	low = 0; sum = 0;
	do
	:: sum >= NEED -> break
	:: else ->
		low++;
		sum = 0;
		for (i : 0 .. N - 1) {
			sum = sum + (PART(C, i).granted && PART(C, i).fence <= low)
		}
	od;
#ifdef BREAK_LOWEST_FENCE
	low = 1;
	do
	:: true ->
		k = 0;
		for (i : 0 .. N - 1) {
			k = k + (PART(C, i).granted && PART(C, i).fence <= low)
		}
		if
		:: k > 0 -> break
		:: else -> low++
		fi
	od;
#endif
	known(C, low)
}

/* known sets sum to how many nodes of C know the fence. */
inline known(C, FENCE) {
	sum = 0;
	for (i : 0 .. N - 1) {
		sum = sum + (PART(C, i).granted && PART(C, i).fence >= FENCE)
	}
}

/* begin makes a lease of C's parts, if all parts that its fence was made of are still held. */
inline begin(C, FENCE) {
	k = 0; sum = 0;
	for (i : 0 .. N - 1) {
		k = k + (PART(C, i).granted && PART(C, i).over);
		sum = sum + (PART(C, i).granted && !PART(C, i).over)
	}
	if
#ifdef BREAK_OVER_COUNTS
	:: sum >= NEED ->
#else
	:: k == 0 && sum >= NEED ->
#endif
		printf("%d holds the lock, with %d\n", C, FENCE);
		fences_rise = FENCE > last || !FENCES;
		assert(fences_rise);
		last = FENCE;
		stage[C] = holding; fence[C] = 0;
		for (i : 0 .. N - 1) {
			PART(C, i).fence = 0;
			if
			:: PART(C, i).over -> let(C, i)
			:: else
			fi
		}
	:: else -> printf("%d is too late\n", C); leave(C)
	fi
}

inline raise(X, FENCE) { counter[X] = (counter[X] < FENCE -> FENCE : counter[X]) }

/* caught_up is node_raise.lua. */
inline caught_up(X, MARK, COUNTER) {
	if
	:: state[X] != quarantined && mark[X] == MARK ->
		raise(X, COUNTER); state[X] = serving; printf("node %d knows %d, and serves\n", X, COUNTER)
	:: else
	fi
}

inline mended() {
	for (i : 0 .. N - 1) {
		target[i] = false; told[i] = false
	}
	mending = false; target_mark = 0; best = 0
}
inline late_over(X) { late = false; late_target[X] = false; late_mark = 0; late_best = 0 }

/* What a client does with a node. A request that is carried out is answered at once; a late answer
 * counts as none: README.md. */
#define C	(_pid / N)
#define X	(_pid % N)
active [CLIENTS * N] proctype pair() {
end:	do :: atomic { if
	/* It asks for the lock; or, holding it, for that of a node that does not have it yet. */
#ifdef BREAK_ANY_NODE_VOTES
#define VOTES(NODE)	true
#else
#define VOTES(NODE)	(state[NODE] == serving)
#endif
	:: d_step { VOTES(X) && owner[X] == FREE && counter[X] < TOP && !PART(C, X).granted && stage[C] != raising ->
		count(C);
		if
		:: stage[C] == asking || sum >= NEED ->
			counter[X]++; owner[X] = C;
			PART(C, X).granted = true; PART(C, X).fence = (stage[C] == asking -> counter[X] : 0);
			printf("%d is granted node %d, with %d\n", C, X, counter[X])
		:: else
		fi }
	/* It asks by the node's own commands, which count even if it is not granted the lock. */
	:: d_step { (state[X] != serving || owner[X] != FREE) && counter[X] < TOP && !PART(C, X).granted && stage[C] == asking ->
		counter[X]++; printf("%d is not granted node %d, which counts %d\n", C, X, counter[X]) }
	/* It tells the node the fence. */
	:: d_step { stage[C] == raising && state[X] == serving && PART(C, X).granted && PART(C, X).fence < fence[C] &&
#ifdef BREAK_RAISED_UNOWNED
		true ->
#else
		owner[X] == C ->
#endif
		raise(X, fence[C]); PART(C, X).fence = fence[C];
		printf("%d has node %d know %d\n", C, X, fence[C]) }
	:: d_step { stage[C] == raising && state[X] == serving && PART(C, X).granted && counter[X] < fence[C] && owner[X] == C ->
		raise(X, fence[C]); printf("%d has node %d know %d, and is not answered\n", C, X, fence[C]) }
	/* It has a deadline there, past which the lock expires. An attempt that meets one before it is
	 * a lease comes to nothing, and may as well end at once: what it could still do, keep others
	 * from nodes and raise counters, needs no attempt. */
	:: d_step { PART(C, X).granted && !PART(C, X).over ->
		printf("%d's deadline at node %d passes\n", C, X);
		if
		:: stage[C] == holding -> let(C, X)
#ifdef BREAK_OVER_COUNTS
		:: else -> PART(C, X).over = true
#else
		:: else -> leave(C)
#endif
		fi }
	:: d_step { owner[X] == C && PART(C, X).over -> owner[X] = FREE; printf("the lock of %d at node %d expires\n", C, X) }
	fi; d_step { check() } } od
}
#undef C
#undef X

#define me (_pid - CLIENTS * N)
active [CLIENTS] proctype client() {
end:	do :: atomic { if
	/* It has asked for long enough. */
	:: d_step { stage[me] == asking ->
		sum = 0;
		for (i : 0 .. N - 1) {
			sum = sum + PART(me, i).granted
		}
		if
		:: sum >= NEED ->
			agree(me);
			fence[me] = low;
			if
#ifdef BREAK_NO_RAISE
			:: true -> begin(me, fence[me])
#else
			:: sum >= NEED -> begin(me, fence[me])
#endif
			:: else -> stage[me] = raising; printf("%d wants %d to be known\n", me, low)
			fi
		:: else
		fi }
	:: d_step { stage[me] == raising ->
		known(me, fence[me]);
		if
		:: sum >= NEED -> begin(me, fence[me])
		:: else
		fi }
	/* It gives up, releases, has lost its lease, or dies: another takes its place then. */
	:: d_step { true -> printf("%d ends\n", me); leave(me) }
	fi; d_step { check() } } od
}
#undef me

#define me (_pid - CLIENTS * N - CLIENTS)
active [N] proctype node() {
end:	do :: atomic { if
	/* An acquire comes late, or again, or its answer is lost. */
	:: d_step { state[me] == serving && owner[me] == FREE && counter[me] < TOP ->
		counter[me]++; printf("node %d grants what nobody hears of\n", me) }
	/* It loses all its data. */
	:: d_step { losses < LOSSES ->
		losses++;
		mark[me]++;
		owner[me] = FREE; counter[me] = 0; state[me] = quarantined;
		printf("node %d restarts empty\n", me) }
	:: d_step { losses < LOSSES && flushes < FLUSHES ->
		losses++; flushes++;
#ifndef BREAK_OF_ANY_LOSS
		mark[me]++;
#endif
		owner[me] = FREE; counter[me] = 0; state[me] = quarantined;
		printf("node %d is emptied\n", me) }
	/* Its quarantine is over when no earlier lease is believed in. */
	:: d_step { state[me] == quarantined ->
		k = 0;
#ifndef BREAK_NO_QUARANTINE
		for (i : 0 .. CLIENTS - 1) {
			k = k + (PART(i, me).granted && !PART(i, me).over)
		}
#endif
		if
		:: k == 0 ->
#ifdef BREAK_COUNTER_NOT_READ
			state[me] = serving;
#else
			state[me] = behind;
#endif
			printf("the quarantine of node %d is over\n", me)
		:: else
		fi }
	fi; d_step { check() } } od
}
#undef me

#define me (_pid - CLIENTS * N - CLIENTS - N)
active [N] proctype mender() {
end:	do :: atomic { if
	/* Somebody is told that the node is behind, reads the others' counters, one by one, */
	:: d_step { !mending && state[me] == behind ->
		mending = true; target[me] = true; target_mark = mark[me]; printf("node %d is behind\n", me) }
	:: d_step { mending && !target[me] && state[me] == serving && !told[me] ->
		told[me] = true;
		best = (counter[me] > best -> counter[me] : best);
		printf("node %d tells its counter, %d\n", me, counter[me]) }
	/* and raises it: at once, or later; or it gives up. */
	:: d_step { target[me] ->
		sum = 0;
		for (i : 0 .. N - 1) {
			sum = sum + told[i]
		}
		if
		:: sum >= OTHERS -> caught_up(me, target_mark, best)
		:: else
		fi;
		mended() }
	:: d_step { LATE && target[me] && !late ->
		sum = 0;
		for (i : 0 .. N - 1) {
			sum = sum + told[i]
		}
		if
		:: sum >= OTHERS -> late = true; late_target[me] = true; late_mark = target_mark; late_best = best
		:: else
		fi;
		mended() }
	:: d_step { late_target[me] -> caught_up(me, late_mark, late_best); late_over(me) }
	:: d_step { late_target[me] -> late_over(me) }
	fi; d_step { check() } } od
}
#undef me
