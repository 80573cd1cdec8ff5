"""What the patches for the Raspberry Pi 5 have the kernel do, without a kernel.

The functions are taken from the patches and compiled for this machine, on memory in the place of
registers and of the firmware's mailbox. This shows what is written where, not that the chip is as
the patches' headers say.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from lab.paths import ROOT

PWM, TRYBOOT = (
    next((ROOT / "patches/linux").glob(f"*-{name}-*.patch")) for name in ("pwm", "firmware")
)
#: RP1's clock for the fan, Hz, and the fan's period, ns: patches/linux, "Add the fan"
RATE, PERIOD = 50_000_000, 41_566
#: Ticks of that period, rounded down: the register counts from zero
TICKS = 2078
GLOBAL, CTRL, RANGE, DUTY = 0x00, 0x44, 0x48, 0x50  # of channel 3
UPDATE, ENABLE, INVERT, TRAILING, NO_FIFO = 1 << 31, 1 << 3, 1 << 3, 1, 1 << 8

KERNEL = """
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
typedef uint64_t u64;
typedef uint32_t u32;
#define __iomem
#define U32_MAX UINT32_MAX
#define NSEC_PER_SEC 1000000000ull
#define BIT(bit) (1u << (bit))
#define GENMASK(high, low) ((UINT32_MAX >> (31 - (high))) & (UINT32_MAX << (low)))
#define min_t(type, a, b) ((type)(a) < (type)(b) ? (type)(a) : (type)(b))
#define min(a, b) min_t(u64, a, b)
#define DIV64_U64_ROUND_UP(a, b) (((a) + (b) - 1) / (b))
#define container_of(member, type, name) ((type *)((char *)(member) - offsetof(type, name)))
static u64 mul_u64_u64_div_u64(u64 a, u64 b, u64 c)
{
	return (unsigned __int128)a * b / c;
}
static u32 readl(void *address) { return *(volatile u32 *)address; }
static void writel(u32 value, void *address) { *(volatile u32 *)address = value; }
static void __attribute__((unused)) *unused[] = { mul_u64_u64_div_u64, readl, writel };
"""

PWM_CORE = """
enum { PWM_POLARITY_NORMAL, PWM_POLARITY_INVERSED };
struct pwm_state { u64 period, duty_cycle; int polarity; bool enabled; };
struct pwm_device { unsigned int hwpwm; };
struct pwm_chip { void *data; };
struct pwm_ops {
	int (*apply)(struct pwm_chip *, struct pwm_device *, const struct pwm_state *);
	int (*get_state)(struct pwm_chip *, struct pwm_device *, struct pwm_state *);
};
static void *pwmchip_get_drvdata(struct pwm_chip *chip) { return chip->data; }
"""

# RATE PERIOD DUTY INVERSED ENABLED...: what apply() said, all registers, and what get_state() says
PWM_MAIN = """
int main(int argc, char **argv)
{
	u32 registers[64] = { [0x1c / 4] = 0x1c1c, [0x3c / 4] = 0x3c3c };
	struct rp1_pwm rp1 = { registers, strtoul(argv[1], NULL, 10) };
	struct pwm_chip chip = { &rp1 };
	struct pwm_device pwm = { 3 };
	for (char **word = argv + 2; word + 4 <= argv + argc; word += 4) {
		struct pwm_state state = {
			strtoull(word[0], NULL, 10), strtoull(word[1], NULL, 10),
			atoi(word[2]), atoi(word[3])
		};
		registers[0] &= ~BIT(31);	/* The chip takes it back. */
		printf("%d", rp1_pwm_ops.apply(&chip, &pwm, &state));
	}
	for (int i = 0; i < 64; i++)
		printf(" %u", registers[i]);
	struct pwm_state state;
	rp1_pwm_ops.get_state(&chip, &pwm, &state);
	printf(" %llu %llu", (unsigned long long)state.period, (unsigned long long)state.duty_cycle);
	printf(" %d %d\\n", state.polarity, state.enabled);
}
"""

FIRMWARE = """
struct notifier_block { int (*notifier_call)(struct notifier_block *, unsigned long, void *); };
struct rpi_firmware { struct { void *dev; } cl; struct notifier_block reboot_nb; };
enum { SYS_RESTART = 1, SYS_HALT = 2, NOTIFY_DONE = 0 };
#define dev_err(dev, ...) fprintf(stderr, __VA_ARGS__)
static char *skip_spaces(const char *text) { return (char *)text + strspn(text, " \\t\\n"); }
static int rpi_firmware_property(struct rpi_firmware *fw, u32 tag, void *data, size_t size)
{
	printf("%s %#x %zu %u", (char *)fw->cl.dev, tag, size, *(u32 *)data);
	return getenv("REFUSED") ? -EINVAL : 0;
}
"""

# ACTION [ARGUMENT]: each message to the firmware
FIRMWARE_MAIN = """
int main(int argc, char **argv)
{
	struct rpi_firmware fw = { { "mailbox" }, { rpi_firmware_notify_restart } };
	return fw.reboot_nb.notifier_call(&fw.reboot_nb, atoi(argv[1]), argc > 2 ? argv[2] : NULL);
}
"""


def added(patch: Path, file: str) -> str:
    """The lines that a patch adds to a file."""
    part = patch.read_text().split(f"\n+++ b/{file}\n")[1].split("\ndiff --git ")[0]
    return "".join(line[1:] + "\n" for line in part.splitlines() if line.startswith("+"))


def function(code: str, name: str) -> str:
    """One function of a C source in the kernel's style."""
    found = re.search(rf"^static [^;{{}}]*\b{name}\([^{{]*\{{.*?^\}}$", code, re.DOTALL | re.M)
    assert found, name
    return found[0]


def program(folder: Path, *code: str) -> Path:
    """Compiles parts of C to a program."""
    source = folder / "main.c"
    source.write_text("\n".join(code))
    command = ["gcc", "-O1", "-Wall", "-Wextra", "-Wno-unused", "-Wno-sign-compare", "-Werror"]
    subprocess.run([*command, "-o", str(folder / "main"), str(source)], check=True)
    return folder / "main"


# -- the fan's controller -----------------------------------------------------------------


@pytest.fixture(scope="module")
def pwm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The driver up to its probe(), on registers in memory."""
    code = added(PWM, "drivers/pwm/pwm-rp1.c").split("static int rp1_pwm_probe")[0]
    code = re.sub(r"(?m)^#include .*$", "", code)
    return program(tmp_path_factory.mktemp("pwm"), KERNEL, PWM_CORE, code, PWM_MAIN)


def applied(pwm: Path, *states: tuple[int, int, int, int], rate: int = RATE) -> list[int]:
    """All registers after these states, then period, duty cycle, polarity and enabled."""
    words = [str(word) for state in states for word in state]
    said = subprocess.run([str(pwm), str(rate), *words], check=True, capture_output=True, text=True)
    result, *rest = said.stdout.split()
    assert result == "0" * len(states)
    return [int(word) for word in rest]


@pytest.mark.parametrize("level", [75, 125, 175, 255])
def test_fan_turns(pwm: Path, level: int) -> None:
    """Period and duty cycle in ticks of the clock, inverted; the same is read back."""
    duty = (PERIOD - 1) * level // 255
    *registers, period, read, polarity, enabled = applied(pwm, (PERIOD, duty, 1, 1))
    ticks = duty * RATE // 10**9
    assert registers[RANGE // 4] == TICKS - 1
    assert registers[DUTY // 4] == ticks
    assert registers[CTRL // 4] == TRAILING | INVERT | NO_FIFO
    assert registers[GLOBAL // 4] == UPDATE | ENABLE
    assert (polarity, enabled) == (1, 1)
    assert 0 <= PERIOD - period < 10**9 / RATE
    assert 0 <= duty - read < 10**9 / RATE


def test_full_speed_is_all_of_the_time(pwm: Path) -> None:
    """The duty cycle is beyond the last count: not one tick of each period is off."""
    # The fan's driver asks for a nanosecond less than the period.
    registers = applied(pwm, (PERIOD, PERIOD - 1, 1, 1))
    assert registers[DUTY // 4] > registers[RANGE // 4]


def test_fan_stops(pwm: Path) -> None:
    """Off stays inverted, so that the pin has the level at which the fan stands."""
    registers = applied(pwm, (PERIOD, PERIOD, 1, 1), (PERIOD, 0, 1, 0))
    assert registers[GLOBAL // 4] == UPDATE
    assert registers[CTRL // 4] & INVERT


def test_other_registers_are_left_alone(pwm: Path) -> None:
    """Other channels and all phases, one of which the firmware writes the fan's speed to."""
    registers = applied(pwm, (PERIOD, PERIOD // 2, 1, 1))[:64]
    expected = {0x1C // 4: 0x1C1C, 0x3C // 4: 0x3C3C}
    ours = {GLOBAL // 4, CTRL // 4, RANGE // 4, DUTY // 4}
    assert {i: value for i, value in enumerate(registers) if value and i not in ours} == expected


@pytest.mark.parametrize("rate", [RATE, 10**9])
def test_a_long_period_is_cut(pwm: Path, rate: int) -> None:
    """More ticks than the register holds are as many as it holds, with nothing overflowing."""
    registers = applied(pwm, (2**63, 2**63, 0, 1), rate=rate)
    assert registers[RANGE // 4] == 2**32 - 2
    assert registers[DUTY // 4] == 2**32 - 1


def test_a_period_of_no_ticks_is_refused(pwm: Path) -> None:
    """Nothing is written."""
    command = [str(pwm), str(RATE), "20", "10", "0", "1"]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    assert said[0] == "-22"
    assert [word for word in said[1:65] if word != "0"] == [str(0x1C1C), str(0x3C3C)]


# -- tryboot ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def restart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The firmware driver's notifier, with a mailbox that prints."""
    code = added(TRYBOOT, "drivers/firmware/raspberrypi.c")
    header = added(TRYBOOT, "include/soc/bcm2835/raspberrypi-firmware.h")
    flag = re.search(r"#define .*", header)
    tag = re.search(r"(RPI_FIRMWARE_SET_REBOOT_FLAGS) =\s*(\w+)", header)
    assert flag
    assert tag
    names = ("rpi_firmware_has_word", "rpi_firmware_notify_restart")
    functions = [function(code, name) for name in names]
    constants = f"{flag[0]}\nenum {{ {tag[1]} = {tag[2]} }};"
    folder = tmp_path_factory.mktemp("restart")
    return program(folder, KERNEL, FIRMWARE, constants, *functions, FIRMWARE_MAIN)


SENT = "mailbox 0x38064 4 1"


@pytest.mark.parametrize(
    ("action", "argument", "sent"),
    [
        ("1", "0 tryboot", SENT),
        ("1", "tryboot", SENT),
        ("1", "  tryboot\n", SENT),
        ("1", "0 tryboot quick", SENT),
        ("2", "0 tryboot", ""),
        ("1", None, ""),
        ("1", "", ""),
        ("1", " ", ""),
        ("1", "0", ""),
        ("1", "0 trybootx", ""),
        ("1", "0 xtryboot", ""),
        ("1", "0 try boot", ""),
        ("1", "0 TRYBOOT", ""),
    ],
)
def test_tryboot(restart: Path, action: str, argument: str | None, sent: str) -> None:
    """The flag is set for that word of a restart's argument, and for nothing else."""
    command = [str(restart), action, *([argument] if argument is not None else [])]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout == sent


def test_tryboot_is_refused(restart: Path) -> None:
    """The machine restarts all the same, and the log says that it is no trial."""
    command = [str(restart), "1", "0 tryboot"]
    environment = {"REFUSED": "1"}
    said = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    assert said.stderr == "tryboot not set (-22), the next boot is a normal one\n"
