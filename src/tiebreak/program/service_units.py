"""Unit files for systemd and launchd, which start a daemon for a user and keep it running."""

from __future__ import annotations

from ..text import html


def systemd(words: list[str]) -> str:
    """The content of `~/.config/systemd/user/tiebreak.service`."""
    line = " ".join(_quoted(word) for word in words)
    return f"""\
# ~/.config/systemd/user/tiebreak.service
# systemctl --user daemon-reload && systemctl --user enable --now tiebreak
[Unit]
Description=tiebreak: one winner, and everyone can see who
After=network.target

[Service]
Type=exec
ExecStart={line}
Restart=on-failure
RestartSec=1
TimeoutStopSec=60
NoNewPrivileges=yes
UMask=0077

[Install]
WantedBy=default.target"""


def _quoted(word: str) -> str:
    """Quote a word for systemd, where quotes, backslashes, percent and dollar signs are special."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"' if any(c in escaped for c in " \t'\";\\") or not escaped else escaped


def launchd(words: list[str]) -> str:
    """The content of `~/Library/LaunchAgents/tiebreak.plist`."""
    arguments = "\n".join(f"    <string>{html(word)}</string>" for word in words)
    return f"""\
<?xml version="1.0" encoding="UTF-8"?>
<!-- ~/Library/LaunchAgents/tiebreak.plist; launchctl bootstrap gui/$UID tells launchd of it -->
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
  <key>Label</key>
  <string>tiebreak</string>
  <key>ProgramArguments</key>
  <array>
{arguments}
  </array>
  <key>RunAtLoad</key>
  <true/>
  <key>KeepAlive</key>
  <dict>
    <key>SuccessfulExit</key>
    <false/>
  </dict>
  <key>ProcessType</key>
  <string>Background</string>
</dict>
</plist>"""
