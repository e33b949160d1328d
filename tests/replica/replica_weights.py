"""What a world around the replica core is made of, and how often each thing happens in it."""

STEPS = 3000
AWAY = range(STEPS // 5, STEPS * 4 // 5)
QUIET_ROUNDS = 400
SHAPES = [(0, False), (1, False), (1, False), (1, True), (1, True), (2, False)]
WEIGHTS = {
    "client append": 40,
    "client deliver": 60,
    "client again": 4,
    "client move": 8,
    "client open": 4,
    "client reopen": 0.5,
    "client expire": 0.1,
    "anonymous append": 4,
    "sync": 120,
    "work": 30,
    "attend": 100,
    "join": 20,
    "send batches": 60,
    "receive batch": 80,
    "break stream": 2,
    "late batch": 2,
    "fetch runs": 10,
    "deliver report": 80,
    "lose report": 3,
    "propose": 50,
    "commit": 50,
    "change leader": 0.3,
    "break link": 0.5,
    "drop news": 0.5,
    "crash": 0.5,
    "power loss": 0.1,
    "restart": 5,
    "lose lane": 3,
    "close lane": 0.1,
    "trim": 0.5,
    "drop trimmed": 6,
    "finalize": 0.03,
    "fill disk": 0.2,
    "free disk": 4,
    "tick": 20,
}
FAULTS = [
    "break stream",
    "late batch",
    "lose report",
    "change leader",
    "break link",
    "drop news",
    "crash",
    "power loss",
]
FAULTS += ["lose lane", "close lane", "trim", "drop trimmed", "fill disk", "client reopen", "client again"]
