"""The screens that the dashboard is looked at on."""

DESKTOP = {"width": 1440, "height": 900}
PHONE = {"width": 360, "height": 740}
# Where the first screen is looked at.
PHONE_OF_TODAY = {"width": 390, "height": 844}
