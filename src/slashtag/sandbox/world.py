"""Invented but lifelike labels: places, devices, referrers, words. Data only."""

UNKNOWN = "unknown."
DIRECT = "Direct"
OTHER = "Other"

# id -> host; 0 is the service's own domain ("no branded domain").
DOMAINS = {0: "sho.example", 1: "go.example", 2: "link.example", 3: "brand.example"}

# country, share of clicks, pattern of a postal code, "State: City, City | ..." with a zone after "@".
COUNTRIES: tuple[tuple[str, int, str, str], ...] = (
    (
        "US",
        340,
        "{:05d}",
        "California: Los Angeles, San Diego, San Jose, Fresno @America/Los_Angeles"
        " | Texas: Houston, Austin, Dallas, El Paso @America/Chicago"
        " | New York: New York, Buffalo, Albany, Rochester @America/New_York"
        " | Florida: Miami, Tampa, Orlando, Naples @America/New_York"
        " | Illinois: Chicago, Peoria, Aurora @America/Chicago"
        " | Pennsylvania: Philadelphia, Pittsburgh, Erie @America/New_York"
        " | Ohio: Columbus, Cleveland, Dayton @America/New_York"
        " | Georgia: Atlanta, Savannah, Macon @America/New_York"
        " | Washington: Seattle, Spokane, Tacoma @America/Los_Angeles"
        " | Arizona: Phoenix, Tucson, Mesa @America/Phoenix"
        " | Colorado: Denver, Boulder, Pueblo @America/Denver"
        " | Massachusetts: Boston, Worcester, Lowell @America/New_York"
        " | Michigan: Detroit, Lansing, Flint @America/Detroit"
        " | Oregon: Portland, Salem, Eugene @America/Los_Angeles"
        " | Minnesota: Minneapolis, Duluth, Rochester @America/Chicago"
        " | Nevada: Las Vegas, Reno, Elko @America/Los_Angeles"
        " | Alaska: Anchorage, Juneau @America/Anchorage | Hawaii: Honolulu, Hilo @Pacific/Honolulu",
    ),
    (
        "DE",
        110,
        "{:05d}",
        "Berlin: Berlin @Europe/Berlin | Bayern: München, Nürnberg, Würzburg @Europe/Berlin"
        " | Nordrhein-Westfalen: Köln, Düsseldorf, Münster @Europe/Berlin"
        " | Sachsen: Dresden, Leipzig @Europe/Berlin",
    ),
    (
        "GB",
        95,
        "EX{:d} 1AB",
        "England: London, Manchester, Leeds @Europe/London | Scotland: Edinburgh, Glasgow @Europe/London"
        " | Wales: Cardiff, Swansea @Europe/London",
    ),
    (
        "IN",
        90,
        "{:06d}",
        "Maharashtra: Mumbai, Pune, Nagpur @Asia/Kolkata | Karnataka: Bengaluru, Mysuru @Asia/Kolkata"
        " | Delhi: New Delhi @Asia/Kolkata | Kerala: Kochi, Kannur @Asia/Kolkata",
    ),
    (
        "FR",
        60,
        "{:05d}",
        "Île-de-France: Paris, Saint-Denis @Europe/Paris | Bretagne: Rennes, Brest @Europe/Paris"
        " | Occitanie: Toulouse, Nîmes @Europe/Paris",
    ),
    (
        "BR",
        55,
        "{:05d}-000",
        "São Paulo: São Paulo, Campinas @America/Sao_Paulo | Bahia: Salvador, Ilhéus @America/Bahia",
    ),
    ("JP", 40, "{:03d}-0001", "東京都: 新宿区, 渋谷区 @Asia/Tokyo | 大阪府: 大阪市, 堺市 @Asia/Tokyo"),
    ("CA", 35, "K{:d}A 0B1", "Ontario: Toronto, Ottawa @America/Toronto | Québec: Montréal @America/Toronto"),
    (
        "AU",
        30,
        "{:04d}",
        "Victoria: Melbourne, Geelong @Australia/Melbourne | Tasmania: Hobart @Australia/Hobart",
    ),
    ("ES", 28, "{:05d}", "Madrid: Madrid @Europe/Madrid | Cataluña: Barcelona, Girona @Europe/Madrid"),
    ("NL", 22, "{:04d} AB", "Utrecht: Utrecht, Amersfoort @Europe/Amsterdam"),
    ("NP", 6, "{:05d}", "Bagmati: Kathmandu, Lalitpur @Asia/Kathmandu"),
    ("NZ", 6, "{:04d}", "Otago: Dunedin @Pacific/Auckland | Auckland: Auckland @Pacific/Auckland"),
)
UNKNOWN_COUNTRY_SHARE = 12

# device, browser, platform, share
AGENTS: tuple[tuple[str, str, str, int], ...] = (
    ("Desktop", "Chrome", "Windows", 230),
    ("Desktop", "Edge", "Windows", 70),
    ("Desktop", "Firefox", "Windows", 40),
    ("Desktop", "Firefox", "Linux", 25),
    ("Desktop", "Chrome", "macOS", 60),
    ("Desktop", "Safari", "macOS", 70),
    ("Desktop", "Opera", "Windows", 8),
    ("Desktop", UNKNOWN, UNKNOWN, 22),
    ("Mobile", "Chrome", "Android", 220),
    ("Mobile", "Samsung Internet", "Android", 40),
    ("Mobile", "Safari", "iOS", 160),
    ("Mobile", UNKNOWN, "Android", 6),
    ("Tablet", "Safari", "iPadOS", 30),
    ("Tablet", "Chrome", "Android", 17),
)

REFERRERS: tuple[tuple[str, int], ...] = (
    (DIRECT, 430),
    ("search.example", 180),
    ("social.example", 150),
    ("mail.example", 70),
    ("video.example", 50),
    ("news.example", 40),
    ("chat.example", 30),
    ("forum.example", 20),
    ("blog.example", 15),
    ("café.example", 5),
)

# Clicks of each hour of the day, 0 to 23 UTC.
HOURS = (14, 10, 8, 7, 8, 11, 18, 28, 40, 52, 58, 60, 62, 64, 66, 66, 64, 60, 54, 48, 42, 34, 26, 19)

TOPICS = ("spring", "summer", "autumn", "winter", "launch", "webinar", "sale", "promo", "event", "docs")
MORE_TOPICS = ("news", "offer", "jobs", "survey", "guide", "demo", "store", "gift", "podcast", "invite")
PLACES_OF_USE = ("mail", "bio", "print", "poster", "video", "ad", "blog", "chat", "qr", "team", "shop", "app")
FOREIGN = ("été", "größe", "夏祭り", "весна", "zażółć", "ελιά", "日本", "naïve", "señal", "बिक्री")
AWKWARD = ("a/b", "what?", "no#1", "100%", "two words", "c++", "x&y=z", "50%25", "q?a=b", "../up")
TAG_NAMES = (
    *("Spring sale", "newsletter", "social", "Größe L", "partners", "print", "q1-2024", "A/B test"),
    *("events", "support", "100% off", "blog+news", "recruiting", "夏", "internal", "app"),
)
