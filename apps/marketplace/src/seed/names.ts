import type { Random } from "./random.js";

// Names as their owners write them. Accents, other scripts and text from right to left put search, sorting, escaping
// and layout to the test. `form` "fg" places the family name first; "fg-" does so without a space.
const languages: readonly { readonly given: string; readonly family: string; readonly form?: string }[] = [
  { given: "Grace Ada Alan Edith Walter Nora Hugh", family: "Hopper Whitby Ashdown Penrose Marlowe Tindall Fairfax" },
  { given: "Amélie Théo Chloé Gaël Noémie Rémi Solène", family: "Lefèvre Béranger Dubois Garçon Chénier Moreau Naël" },
  { given: "Jürgen Käthe Björn Annelie Götz Ulrike Sönke", family: "Müller Weiß Schröder Jäger Köhler Straßer Vogt" },
  { given: "Íñigo Begoña Raúl Nieves Óscar Pilar Ángel", family: "Ibáñez Muñoz Peñalver Quiroga Azcárate Güell Ríos" },
  {
    given: "João Inês Conceição Tomé Graça Simão Leonor",
    family: "Magalhães Simões Falcão Guimarães Brandão Leitão Sá",
  },
  {
    given: "Niccolò Fiammetta Zoë Gavino Letizia Ruggero Cosima",
    family: "Esposito Dalmasso Ferrò Bellucci Sartori Zanè Vico",
  },
  { given: "Åsa Björk Örjan Linnéa Göran Saga Ture", family: "Ångström Sjöberg Öhman Lindqvist Hägg Ekström Nyås" },
  {
    given: "Jóhanna Þór Sigríður Ásgeir Ólöf Guðrún Ævar",
    family: "Þórðarson Jónsdóttir Egilsson Ásgrímsdóttir Björnsson Hallsdóttir Örn",
  },
  {
    given: "Łucja Grażyna Zbigniew Świętosława Józef Bożena Mścisław",
    family: "Wójcik Dąbrowska Żuraw Kołodziej Śliwa Źdźbło Nowak",
  },
  { given: "Jiří Květa Řehoř Božena Ondřej Šárka Zdeněk", family: "Dvořák Němcová Kříž Šťastný Říha Žáková Čapek" },
  { given: "Ğiray Çiğdem Özgür Şirin Işıl Ümit Gülşen", family: "Yıldız Çelik Öztürk Şahin Güneş Ağaoğlu İnce" },
  { given: "Ελένη Γιώργος Αθηνά Νίκος Σοφία Θαλής Ιόλη", family: "Παππάς Καζάκος Ρήγα Μαυρίδης Λάμπρου Ξένου Ψαρός" },
  {
    given: "Ольга Фёдор Наталья Юрий Зоя Михаил Эльвира",
    family: "Щербак Королёва Журавль Цветаева Чижов Шилов Ёлкин",
  },
  {
    given: "Ганна Їжак Соломія Остап Євген Мирослава Ґедеон",
    family: "Шевчук Кобзар Лисенко Ґалаґан Їжакевич Бойко Гай",
  },
  { given: "נועה אברהם תמר יונתן שירה דוד מיכל", family: "לוי כהן פרידמן שפירא אלון ברק גולן" },
  { given: "ليلى يوسف مريم خالد سلمى عمر هدى", family: "الخطيب منصور الحداد النجار صباغ العطار درويش" },
  { given: "दीपा अर्जुन मीरा कबीर लता रोहन सुधा", family: "शर्मा जोशी वर्मा नायर मिश्रा राठौर बसु" },
  { given: "美穂 健太 さくら 翔 由紀 直樹 花子", family: "佐藤 鈴木 高橋 渡辺 小林 森 斎藤", form: "fg" },
  { given: "芳 伟 静 磊 雪梅 志强 若曦", family: "王 欧阳 李 陈 司马 刘 赵", form: "fg-" },
  { given: "서연 민준 하늘 도윤 지우 은별 태양", family: "김 남궁 박 최 정 강 황보", form: "fg-" },
];

const combined = (given: string, family: string, form = "gf"): string => {
  if (form === "gf") return `${given} ${family}`;
  return form === "fg-" ? `${family}${given}` : `${family} ${given}`;
};

/** `count` different names, at most 980, mixed from twenty languages. One of them has an emoji. */
export const names = (count: number, chance: Random): string[] => {
  const all = languages.flatMap(({ given, family, form }) =>
    given.split(" ").flatMap((first) => family.split(" ").map((last) => combined(first, last, form))),
  );
  const mixed = chance.shuffle(all).slice(0, count);
  const someone = Math.min(100, count - 1);
  mixed[someone] = `${mixed[someone] ?? ""} 🦊`;
  return mixed;
};
